//! Hides passwords in addresses before anybody sees them.

/// Names whose values in an address's query are hidden.
const SECRET_NAMES: [&str; 6] = ["password", "passwd", "pass", "secret", "token", "key"];

/// `text` with the passwords of its addresses replaced by `***`. When in doubt it hides too much: a
/// password may hold `/` or `@` where it should not.
pub(crate) fn redact(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (main, query) = match rest.split_once('?') {
        Some((main, query)) if !query.contains('@') => (main, Some(query)),
        _ => (rest, None),
    };
    let main = match main.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:***@{host}"),
            None => format!("{user}@{host}"),
        },
        None => main.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(redact_pair).collect::<Vec<_>>().join("&"));
    match query {
        Some(query) => format!("{scheme}://{main}?{query}"),
        None => format!("{scheme}://{main}"),
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
            ("redis-cluster://:s3cret@h1:1,h2:2", "redis-cluster://:***@h1:1,h2:2"),
            ("redis-sentinel://:s3cret@h1:1,:s3cret@h2:2/main", "redis-sentinel://:***@h2:2/main"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }
}
