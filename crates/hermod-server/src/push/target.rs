//! The URL of an endpoint, checked once, when it is set up.
//!
//! It is read as browsers read URLs: `http://0x7f.1/`, `http://2130706433/` and `http://①②⑦.0.0.1/` all
//! become `http://127.0.0.1/` here, so that the guard sees the address and not a spelling of it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hyper::Uri;
use url::{Host, Url};

/// The longest URL, in bytes.
const LENGTH_MAX: usize = 2_048;

/// An http or https URL without credentials.
///
/// Its path and query may hold what only its owner should know, so `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    uri: Uri,
}

/// Why a text is no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTarget {
    /// It does not read as a URL.
    #[error("is not a URL")]
    NotAUrl,
    /// It is too long.
    #[error("is longer than {LENGTH_MAX} bytes")]
    TooLong,
    /// Another scheme.
    #[error("must start with https:// or http://")]
    Scheme,
    /// `user:password@`.
    #[error("must not hold a user name or password; the signature tells who sends")]
    Credentials,
    /// `#...`.
    #[error("must not hold a fragment; it would not be sent")]
    Fragment,
}

impl Target {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Target, BadTarget> {
        if text.len() > LENGTH_MAX {
            return Err(BadTarget::TooLong);
        }
        let url = Url::parse(text).map_err(|_| BadTarget::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadTarget::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadTarget::Credentials);
        }
        if url.fragment().is_some() {
            return Err(BadTarget::Fragment);
        }
        let uri: Uri = url.as_str().parse().map_err(|_| BadTarget::NotAUrl)?;
        // Two parsers have read it; they must mean the same host, or one would be judged and the other called.
        if uri.host() != url.host_str() {
            return Err(BadTarget::NotAUrl);
        }
        Ok(Target { url, uri })
    }

    /// The whole URL, as it will be called.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Scheme, host and port: what may be logged.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// The address, where the URL holds one instead of a name.
    pub fn literal(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Ipv4(ip) => Some(ip.into()),
            Host::Ipv6(ip) => Some(ip.into()),
            Host::Domain(_) => None,
        }
    }

    pub(super) fn uri(&self) -> Uri {
        self.uri.clone()
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Target, BadTarget> {
        Target::parse(text)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.origin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_urls_are_taken() {
        let cases = [
            ("https://example.com/hook?x=1", Ok(())),
            ("http://example.com:8080", Ok(())),
            ("HTTPS://EXAMPLE.com/", Ok(())),
            ("https://bücher.example/", Ok(())),
            ("", Err(BadTarget::NotAUrl)),
            ("/hook", Err(BadTarget::NotAUrl)),
            ("https://", Err(BadTarget::NotAUrl)),
            ("https://1.2.3.4.5/", Err(BadTarget::NotAUrl)),
            ("ftp://example.com/", Err(BadTarget::Scheme)),
            ("file:///etc/passwd", Err(BadTarget::Scheme)),
            ("gopher://127.0.0.1/", Err(BadTarget::Scheme)),
            ("https://me:word@example.com/", Err(BadTarget::Credentials)),
            ("https://me@example.com/", Err(BadTarget::Credentials)),
            ("https://example.com@127.0.0.1/", Err(BadTarget::Credentials)),
            ("https://example.com/#top", Err(BadTarget::Fragment)),
        ];
        for (text, expected) in cases {
            assert_eq!(Target::parse(text).map(|_| ()), expected, "{text}");
        }
        assert_eq!(Target::parse(&format!("https://x/{}", "a".repeat(LENGTH_MAX))).unwrap_err(), BadTarget::TooLong);
    }

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        let loopback: IpAddr = [127, 0, 0, 1].into();
        for host in ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "%31%32%37.0.0.1", "①②⑦.0.0.1"]
        {
            assert_eq!(Target::parse(&format!("http://{host}/")).unwrap().literal(), Some(loopback), "{host}");
        }
        let mapped = Target::parse("http://[::ffff:7f00:1]:80/").unwrap();
        assert_eq!(mapped.literal(), Some("::ffff:127.0.0.1".parse().unwrap()));
        assert_eq!(Target::parse("http://localhost/").unwrap().literal(), None);
    }

    #[test]
    fn what_follows_the_host_is_not_printed() {
        let target = Target::parse("https://example.com:8443/T0/B0/secret?token=x").unwrap();
        assert_eq!(format!("{target:?}"), "Target(https://example.com:8443)");
        assert_eq!(target.as_str(), "https://example.com:8443/T0/B0/secret?token=x");
    }
}
