//! Hides passwords in addresses before anybody sees them.

/// Names whose values in an address's query are hidden, also as part of a longer name: `sslpassword`.
const SECRET_NAMES: [&str; 8] = ["password", "passwd", "pass", "pwd", "secret", "token", "key", "credential"];

/// `text` with the passwords of its addresses replaced by `***`. When in doubt it hides too much: a
/// password may hold `/`, `?` or `@` where it should not.
pub(crate) fn redact(text: &str) -> String {
    let (scheme, rest) = text.find("://").map_or(("", text), |at| text.split_at(at + "://".len()));
    let Some((main, query)) = rest.split_once('?') else { return format!("{scheme}{}", redact_main(rest)) };
    let pairs = query.split('&').map(redact_pair).collect::<Vec<_>>().join("&");
    if pairs.contains('@') {
        // The `?` may stand in a password that goes on up to the `@`.
        return format!("{scheme}{}", redact_main(&format!("{main}?{pairs}")));
    }
    // So may the one before a pair that is hidden as a whole.
    match main.split_once(':') {
        Some((name, _)) if query.contains('@') && !main.contains('@') => format!("{scheme}{name}:***?{pairs}"),
        _ => format!("{scheme}{}?{pairs}", redact_main(main)),
    }
}

/// Hides what stands between the first `:` and the last `@`.
fn redact_main(main: &str) -> String {
    match main.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:***@{host}"),
            None => main.to_owned(),
        },
        None => main.to_owned(),
    }
}

fn redact_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if SECRET_NAMES.iter().any(|secret| name.to_lowercase().contains(secret)) => format!("{name}=***"),
        _ => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_and_the_rest_is_kept() {
        for (text, shown) in [
            ("embedded", "embedded"),
            ("", ""),
            ("redis://localhost:6379/0", "redis://localhost:6379/0"),
            ("redis://:s3cret@localhost", "redis://:***@localhost"),
            ("rediss://me:s3cret@h:6379/0?protocol=3", "rediss://me:***@h:6379/0?protocol=3"),
            ("postgres://me@h/db", "postgres://me@h/db"),
            ("postgres://me:s3cret@h/db", "postgres://me:***@h/db"),
            ("mysql://me:a/b@c?d@h/db", "mysql://me:***@h/db"),
            ("postgres://h/db?user=me&password=s3cret&sslmode=require", "postgres://h/db?user=me&password=***&sslmode=require"),
            ("postgres://h/db?user=me&password=s3@cret", "postgres://h/db?user=me&password=***"),
            ("postgres://h/db?user=me@corp&password=s3cret", "postgres://h/db?user=me@corp&password=***"),
            ("postgres://me:s3cret@h/db?sslpassword=s3@cret&a=b", "postgres://me:***@h/db?sslpassword=***&a=b"),
            ("mysql://h/db?PWD=s3cret&access_token=s3cret&pass=s3cret", "mysql://h/db?PWD=***&access_token=***&pass=***"),
            ("postgres://h:5432/db?password=s3@cret", "postgres://h:***?password=***"),
            ("postgres://me:s3cret?a&key=s3cret@h/db", "postgres://me:***?a&key=***"),
            ("h/db?password=s3cret", "h/db?password=***"),
            ("me:s3cret@h/db", "me:***@h/db"),
            ("127.0.0.1:7700", "127.0.0.1:7700"),
            ("redis-cluster://:s3cret@h1:1,h2:2", "redis-cluster://:***@h1:1,h2:2"),
            ("redis-sentinel://:s3cret@h1:1,:s3cret@h2:2/main", "redis-sentinel://:***@h2:2/main"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }
}
