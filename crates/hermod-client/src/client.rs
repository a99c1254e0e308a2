//! The client: where the server is, who asks, and how patiently.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;

use crate::clock::Clock;
use crate::decks::Decks;
use crate::error::ClientError;
use crate::events::Events;
use crate::keys::Keys;
use crate::limit::Limit;
use crate::queues::Queues;
use crate::realms::Realms;
use crate::retry::Retry;
use crate::rules::Rules;
use crate::spaces::Spaces;
use crate::subjects::Subjects;

/// How long a call may take in all, tries and pauses together.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long one try may take: as long as a server works on a request by default, and a little more.
const TRY_TIMEOUT: Duration = Duration::from_secs(12);

/// A client of one server. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
    pub(crate) key: Option<Secret>,
    pub(crate) retry: Retry,
    pub(crate) deadline: Duration,
    pub(crate) try_timeout: Duration,
}

impl Client {
    /// A client of the server at `base_url`, such as `http://127.0.0.1:7700`. Nothing is sent yet.
    pub fn new(base_url: &str) -> Result<Client, ClientError> {
        let base = parse_base(base_url)?;
        // A redirect could turn a write into a read, or carry the key elsewhere: better an error.
        let mut builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        if is_loopback(&base) {
            // No proxy can reach this machine's own loopback.
            builder = builder.no_proxy();
        }
        #[cfg(feature = "tls")]
        {
            builder = builder.tls_backend_preconfigured(crate::tls::config(base.scheme() == "https")?);
        }
        let http = builder.build().map_err(|fault| ClientError::invalid("client", fault.without_url().to_string()))?;
        Ok(Client { http, base, key: None, retry: Retry::default(), deadline: DEADLINE, try_timeout: TRY_TIMEOUT })
    }

    /// Sends this API key with every call.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Client {
        self.key = Some(Secret(key.into()));
        self
    }

    /// Repeats failed calls by this policy.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Client {
        self.retry = retry;
        self
    }

    /// Bounds a call as a whole, with all its tries and pauses. 30 seconds by default.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Client {
        self.deadline = deadline;
        self
    }

    /// Bounds a single try, so that a connection gone silent leaves time for another. 12 seconds by default.
    #[must_use]
    pub fn with_try_timeout(mut self, timeout: Duration) -> Client {
        self.try_timeout = timeout;
        self
    }

    /// The address it was made with.
    pub fn base_url(&self) -> &str {
        self.base.as_str()
    }

    /// The limits on actions.
    pub fn rules(&self) -> Rules<'_> {
        Rules::new(self)
    }

    /// May a subject do this now?
    pub fn limit(&self) -> Limit<'_> {
        Limit::new(self)
    }

    /// What is held until its time.
    pub fn queues(&self) -> Queues<'_> {
        Queues::new(self)
    }

    /// What is picked from.
    pub fn decks(&self) -> Decks<'_> {
        Decks::new(self)
    }

    /// Economies that are data.
    pub fn realms(&self) -> Realms<'_> {
        Realms::new(self)
    }

    /// What is known of subjects.
    pub fn subjects(&self) -> Subjects<'_> {
        Subjects::new(self)
    }

    /// What changed.
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// The API keys.
    pub fn keys(&self) -> Keys<'_> {
        Keys::new(self)
    }

    /// The isolated tenants.
    pub fn spaces(&self) -> Spaces<'_> {
        Spaces::new(self)
    }

    /// The server's clock, where it is a manual one.
    pub fn clock(&self) -> Clock<'_> {
        Clock::new(self)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.base.as_str())
            .field("key", &self.key)
            .field("retry", &self.retry)
            .field("deadline", &self.deadline)
            .field("try_timeout", &self.try_timeout)
            .finish_non_exhaustive()
    }
}

/// An API key. It is never printed.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn parse_base(text: &str) -> Result<Url, ClientError> {
    let base = Url::parse(text).map_err(|fault| ClientError::invalid("server address", format!("{fault}; write http://host:port")))?;
    let reason = match base.scheme() {
        "http" => None,
        "https" if cfg!(feature = "tls") => None,
        "https" => Some("https needs the feature `tls` of hermod-client"),
        _ => Some("it must start with http:// or https://"),
    };
    // A password in the address would end up in logs and in `Debug`.
    let reason = reason.or((base.password().is_some() || !base.username().is_empty()).then_some("an API key does not belong into it"));
    match reason {
        Some(reason) => Err(ClientError::invalid("server address", reason)),
        None => Ok(base),
    }
}

fn is_loopback(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_never_shown() {
        let client = Client::new("http://127.0.0.1:7700").unwrap().with_key("hk_topsecret");
        let shown = format!("{client:?}");
        assert!(!shown.contains("topsecret"), "{shown}");
        assert!(shown.contains("***"), "{shown}");
    }

    #[test]
    fn addresses_are_http_without_credentials() {
        for good in ["http://127.0.0.1:7700", "http://[::1]:7700/", "http://localhost/hermod"] {
            assert!(Client::new(good).is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:7700", "redis://h", "http://me:hk_x@h"] {
            assert!(matches!(Client::new(bad), Err(ClientError::Invalid { .. })), "{bad}");
        }
        assert_eq!(Client::new("https://example.org").is_ok(), cfg!(feature = "tls"));
    }
}
