//! Is this store fit for use? Checked at start, and again after every reconnection.

use ::redis::{ErrorKind, Pipeline, RedisError, ServerErrorKind, Value, cmd};
use hermod_core::script::LIBRARY;
use hermod_core::{Partitions, key};

use super::connection::Connection;

/// The version of what Hermod keeps on Redis.
const FORMAT: u32 = 6;

/// Why a store was not taken.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It answered, and is not fit; says what to do.
    Wrong(String),
    /// It did not answer.
    Silent(RedisError),
}

impl From<RedisError> for Unfit {
    fn from(fault: RedisError) -> Unfit {
        // Waiting does not help here: somebody has to correct the URL, or the store's list of users.
        match (fault.kind(), fault.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => {
                Unfit::Wrong(format!("the store refuses this user or password: {fault}; correct the URL, or the user's permissions"))
            }
            _ => Unfit::Silent(fault),
        }
    }
}

pub(super) async fn check(connection: &mut Connection, partitions: Partitions) -> Result<(), Unfit> {
    // It may be promoted at any time, so this is waited for.
    if !is_primary(connection).await? {
        return Err(is_replica().into());
    }
    for info in connection.send_everywhere(cmd("INFO").arg("server").to_owned()).await? {
        check_version(&text(&info))?;
    }
    // Some hosted stores forbid CONFIG; their policy is then the operator's word.
    match connection.send_everywhere(cmd("CONFIG").arg("GET").arg("maxmemory-policy").to_owned()).await {
        Ok(answers) => {
            for answer in answers {
                check_policy(&text(&answer))?;
            }
        }
        Err(fault) if fault.is_io_error() => return Err(fault.into()),
        Err(_) => tracing::warn!("the store does not let its configuration be read; make sure that maxmemory-policy is noeviction"),
    }
    check_meta(connection, "format", &FORMAT.to_string(), "use the version of hermod that wrote it").await?;
    let count = partitions.count().to_string();
    check_meta(connection, "partitions", &count, "set partitions to that number").await?;
    load_everywhere(connection).await
}

/// Loads the library on every primary, unless all have it: to load it takes milliseconds.
async fn load_everywhere(connection: &mut Connection) -> Result<(), Unfit> {
    let list = cmd("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg(&LIBRARY.name).clone();
    let is_there = |found: &Value| matches!(found, Value::Array(libraries) if !libraries.is_empty());
    if connection.send_everywhere(list).await?.iter().all(is_there) {
        return Ok(());
    }
    let load = cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(LIBRARY.text(connection.is_cluster())).clone();
    match connection.send_everywhere(load).await {
        // It is fit all the same, and whoever asks is told.
        Err(fault) if fault.code() == Some("OOM") => {
            tracing::warn!("the store has no memory left for the library of functions; nothing can be answered until it has");
            Ok(())
        }
        loaded => Ok(loaded.map(|_| ())?),
    }
}

/// Loads the library on the node of `key`.
pub(super) async fn load(connection: &mut Connection, key: &str) -> Result<(), RedisError> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("FUNCTION").arg("LOAD").arg(LIBRARY.text(connection.is_cluster()));
    for loaded in connection.send_all(pipeline, key).await? {
        match loaded.extract_error() {
            // Another caller was first.
            Err(fault) if fault.detail().is_some_and(|text| text.contains("already exists")) => {}
            loaded => drop(loaded?),
        }
    }
    Ok(())
}

/// Whether a node has not loaded the library.
pub(super) fn is_unknown_function(fault: &RedisError) -> bool {
    fault.detail().is_some_and(|text| text.contains("Function not found"))
}

/// Whether it is a primary that answers, and everywhere.
pub(super) async fn is_primary(connection: &mut Connection) -> Result<bool, RedisError> {
    let is_primary = |role: &Value| match role {
        Value::Array(parts) => matches!(parts.first(), Some(Value::BulkString(word)) if word == b"master"),
        _ => false,
    };
    Ok(connection.send_everywhere(cmd("ROLE")).await?.iter().all(is_primary))
}

/// What is wrong with a store that is not a primary.
pub(super) fn is_replica() -> RedisError {
    RedisError::from((ErrorKind::Server(ServerErrorKind::ReadOnly), "the store is a replica"))
}

fn check_version(info: &str) -> Result<(), Unfit> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let (server, version, needed) = match field("valkey_version") {
        Some(version) => ("Valkey", version, (7, 2)),
        None => ("Redis", field("redis_version").unwrap_or("0"), (7, 0)),
    };
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found < needed {
        let (major, minor) = needed;
        return Err(Unfit::Wrong(format!("the store is {server} {version}; {server} {major}.{minor} or newer is needed")));
    }
    Ok(())
}

fn check_policy(answer: &str) -> Result<(), Unfit> {
    let policy = answer.split_whitespace().last().unwrap_or("");
    if policy != "noeviction" {
        return Err(Unfit::Wrong(format!(
            "the store's maxmemory-policy is {policy}, which would silently delete state; run CONFIG SET maxmemory-policy noeviction"
        )));
    }
    Ok(())
}

/// The first server to come writes what it was configured with; all others must agree.
async fn check_meta(connection: &mut Connection, field: &str, ours: &str, advice: &str) -> Result<(), Unfit> {
    let mut theirs = connection.send(cmd("HGET").arg(key::META).arg(field)).await?;
    // Written only where it is missing: a store that is full refuses every write, and is fit all the same.
    if theirs == Value::Nil {
        connection.send(cmd("HSETNX").arg(key::META).arg(field).arg(ours)).await?;
        theirs = connection.send(cmd("HGET").arg(key::META).arg(field)).await?;
    }
    let theirs = text(&theirs);
    if theirs != ours {
        return Err(Unfit::Wrong(format!("the store's data was created with {field} {theirs}, and {ours} is configured; {advice}")));
    }
    Ok(())
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Map(pairs) => pairs.iter().map(|(k, v)| format!("{} {}", text(k), text(v))).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_policies_are_judged_with_advice() {
        assert!(check_version("redis_version:7.0.15\r\n").is_ok());
        assert!(check_version("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n").is_ok());
        let Err(Unfit::Wrong(why)) = check_version("redis_version:6.2.1\r\n") else { panic!("6.2 is too old") };
        assert_eq!(why, "the store is Redis 6.2.1; Redis 7.0 or newer is needed");
        assert!(check_policy("maxmemory-policy noeviction").is_ok());
        let Err(Unfit::Wrong(why)) = check_policy("maxmemory-policy allkeys-lru") else { panic!("evicts") };
        assert!(why.contains("CONFIG SET maxmemory-policy noeviction"), "{why}");
    }
}
