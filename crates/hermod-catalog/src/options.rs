//! Where the catalog is, and how it is kept in memory. Also the one place that reads a database URL.

use std::fmt;
use std::time::Duration;

use crate::error::CatalogError;

/// How to open a catalog.
#[derive(Clone)]
pub struct Options {
    /// `sqlite:path`, `sqlite::memory:`, `postgres://...` or `mysql://...` (also for MariaDB).
    pub url: String,
    /// How often other servers' changes are looked for.
    pub poll: Duration,
    /// How many subjects' own rules are kept in memory, and how many subjects' own messages. A subject with many counts as many.
    pub subjects_max: usize,
}

impl Options {
    /// The catalog at `url`, everything else as usual.
    pub fn new(url: impl Into<String>) -> Options {
        Options { url: url.into(), ..Options::default() }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options { url: String::from("sqlite::memory:"), poll: Duration::from_millis(250), subjects_max: 100_000 }
    }
}

// By hand, because the URL may hold a password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &shown(&self.url))
            .field("poll", &self.poll)
            .field("subjects_max", &self.subjects_max)
            .finish()
    }
}

/// Which SQL a database speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    Mysql,
}

/// A database URL, understood as far as the catalog must.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) dialect: Dialect,
    /// What is given to the driver.
    pub(crate) url: String,
    /// Whether it lives in one connection's memory, and dies with it.
    pub(crate) is_memory: bool,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Target, CatalogError> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let dialect = match scheme {
            "sqlite" => Dialect::Sqlite,
            "postgres" | "postgresql" => Dialect::Postgres,
            "mysql" | "mariadb" => Dialect::Mysql,
            _ => {
                let reason = "the catalog's URL must start with \"sqlite:\", \"postgres://\" or \"mysql://\"";
                return Err(CatalogError::configuration(reason));
            }
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if dialect != Dialect::Sqlite {
            if !path.starts_with("//") {
                return Err(CatalogError::configuration(format!("the catalog's URL must start with \"{scheme}://\"")));
            }
            return Ok(Target { dialect, url: url.to_owned(), is_memory: false });
        }
        if path.trim_start_matches('/').is_empty() && query.is_empty() {
            return Err(CatalogError::configuration("the catalog's URL names no file; write \"sqlite:catalog.db\""));
        }
        let mode = query.split('&').find_map(|pair| pair.strip_prefix("mode="));
        let is_memory = path.trim_start_matches('/') == ":memory:" || mode == Some("memory");
        let url = match (is_memory, mode, query) {
            (true, _, _) | (_, Some(_), _) => url.to_owned(),
            // A file that is not there is made.
            (false, None, "") => format!("sqlite:{path}?mode=rwc"),
            (false, None, query) => format!("sqlite:{path}?{query}&mode=rwc"),
        };
        Ok(Target { dialect, url, is_memory })
    }
}

/// `url` as it may be logged: no user, no password, no parameters (PostgreSQL takes a password there too).
pub(crate) fn shown(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    match bare.split_once("://") {
        // The last '@' ends the user part, as a password may hold one.
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or_default()),
        None => bare.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_ever_shown() {
        let rows = [
            ("postgres://bob:s3c@ret@db.example:5432/hermod?password=s3cret", "postgres://db.example:5432/hermod"),
            ("mysql://root:s3cret@localhost/hermod#s3cret", "mysql://localhost/hermod"),
            ("sqlite:/var/lib/hermod/catalog.db?mode=ro", "sqlite:/var/lib/hermod/catalog.db"),
        ];
        for (url, expected) in rows {
            assert_eq!(shown(url), expected);
            assert!(!format!("{:?}", Options::new(url)).contains("s3c"));
        }
    }

    #[test]
    fn urls_are_understood_or_refused_with_a_reason() {
        let rows = [
            ("sqlite:a.db", Dialect::Sqlite, "sqlite:a.db?mode=rwc", false),
            ("sqlite:///var/a.db?cache=private", Dialect::Sqlite, "sqlite:///var/a.db?cache=private&mode=rwc", false),
            ("sqlite:a.db?mode=ro", Dialect::Sqlite, "sqlite:a.db?mode=ro", false),
            ("sqlite::memory:", Dialect::Sqlite, "sqlite::memory:", true),
            ("postgresql://h/d", Dialect::Postgres, "postgresql://h/d", false),
            ("mysql://h/d", Dialect::Mysql, "mysql://h/d", false),
        ];
        for (url, dialect, driver_url, is_memory) in rows {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.dialect, target.url.as_str(), target.is_memory), (dialect, driver_url, is_memory), "{url}");
        }
        for bad in ["", "catalog.db", "oracle://h/d", "sqlite:", "postgres:h", "redis://h"] {
            assert!(matches!(Target::parse(bad), Err(CatalogError::Configuration { .. })), "{bad}");
        }
    }
}
