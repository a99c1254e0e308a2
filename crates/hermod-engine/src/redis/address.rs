//! Where the store is: one URL for a single node, Sentinel or Cluster.

use std::fmt;

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::error::OpenError;

/// A store's address, as configured.
///
/// - `redis://[user:password@]host[:port][/db]`, `rediss://` with TLS: a single node
/// - `redis-cluster://[user:password@]host:port,host:port,...`, `rediss-cluster://`
/// - `redis-sentinel://[user:password@]host:port,host:port,.../name`: the password is the store's
#[derive(Clone)]
pub struct Address {
    pub(super) kind: Kind,
    text: String,
}

#[derive(Clone)]
pub(super) enum Kind {
    Single(Box<ConnectionInfo>),
    Cluster(Vec<String>),
    Sentinel { sentinels: Vec<String>, service: String, login: RedisConnectionInfo },
}

impl Address {
    /// Reads a URL.
    pub fn parse(url: &str) -> Result<Address, OpenError> {
        let fault = |what: String| OpenError::Address(format!("{} {what}", redacted(url)));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| fault("is no URL; use redis://host:port".to_owned()))?;
        let kind = match scheme {
            "redis" | "rediss" => {
                let info = url.into_connection_info().map_err(|e| fault(format!("is not understood: {e}")))?;
                Kind::Single(Box::new(info))
            }
            "redis-cluster" | "rediss-cluster" => {
                let plain = scheme.trim_end_matches("-cluster");
                let (credentials, hosts, _) = split(rest);
                Kind::Cluster(hosts.map(|host| format!("{plain}://{credentials}{host}")).collect())
            }
            "redis-sentinel" => {
                let (credentials, hosts, path) = split(rest);
                if path.is_empty() {
                    return Err(fault("lacks the service's name; use redis-sentinel://host:port,host:port/name".to_owned()));
                }
                let sentinels = hosts.map(|host| format!("redis://{host}")).collect();
                // Any host will do: this is to read the credentials as all other URLs are read, escapes and all.
                let login =
                    format!("redis://{credentials}host").into_connection_info().map_err(|e| fault(format!("is not understood: {e}")))?;
                Kind::Sentinel { sentinels, service: path.to_owned(), login: login.redis_settings().clone() }
            }
            _ => return Err(fault("has an unknown scheme; use redis, rediss, redis-cluster or redis-sentinel".to_owned())),
        };
        if let Kind::Cluster(nodes) | Kind::Sentinel { sentinels: nodes, .. } = &kind {
            if nodes.is_empty() {
                return Err(fault("names no host".to_owned()));
            }
            for node in nodes {
                node.as_str().into_connection_info().map_err(|e| fault(format!("is not understood: {e}")))?;
            }
        }
        Ok(Address { kind, text: redacted(url) })
    }

    /// Whether it is a Cluster, where a call may touch one slot only.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }

    /// The host and the port of each node that a Cluster's address names.
    pub(super) fn nodes(&self) -> Vec<(String, u16)> {
        let Kind::Cluster(nodes) = &self.kind else { return Vec::new() };
        let place = |node: &String| match node.as_str().into_connection_info().ok()?.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Some((host.clone(), *port)),
            _ => None,
        };
        nodes.iter().filter_map(place).collect()
    }

    /// One node of a Cluster, with the login and the encryption of all of it.
    pub(super) fn of_node(&self, host: &str, port: u16) -> Option<Address> {
        let Kind::Cluster(nodes) = &self.kind else { return None };
        let info = nodes.first()?.as_str().into_connection_info().ok()?;
        let place = match info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Some(Address { kind: Kind::Single(Box::new(info.set_addr(place))), text: format!("{host}:{port}") })
    }

    /// The same, to be spoken to in the protocol in which a store can tell without being asked.
    pub(super) fn for_listening(&self) -> Address {
        let speak = |login: &RedisConnectionInfo| login.clone().set_protocol(ProtocolVersion::RESP3);
        let mut address = self.clone();
        match &mut address.kind {
            Kind::Single(info) => **info = info.as_ref().clone().set_redis_settings(speak(info.redis_settings())),
            Kind::Sentinel { login, .. } => *login = speak(login),
            Kind::Cluster(_) => {}
        }
        address
    }
}

/// `user:password@host,host/path` in its three parts; the credentials keep their `@`.
fn split(rest: &str) -> (&str, impl Iterator<Item = &str>, &str) {
    let at = rest.rfind('@').map_or(0, |i| i + 1);
    let (credentials, hosts) = rest.split_at(at);
    let (hosts, path) = hosts.split_once('/').unwrap_or((hosts, ""));
    (credentials, hosts.split(',').filter(|host| !host.is_empty()), path)
}

/// The URL without its password.
fn redacted(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            let (head, tail) = (url.get(..scheme + 3).unwrap_or(""), url.get(at..).unwrap_or(""));
            format!("{head}***{tail}")
        }
        _ => url.to_owned(),
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_never_show_a_password() {
        for good in [
            "redis://127.0.0.1:6379",
            "redis://u:geheim@h:1/2",
            "redis-cluster://u:geheim@a:1,b:2",
            "redis-sentinel://:geheim@a:1,b:2/mymaster",
        ] {
            let address = Address::parse(good).unwrap();
            assert!(!format!("{address:?} {address}").contains("geheim"), "{address}");
        }
        for bad in
            ["", "localhost:6379", "http://h", "redis-sentinel://h:1", "redis-sentinel:///s", "redis-cluster://h:port", "redis-cluster://"]
        {
            let fault = Address::parse(bad).unwrap_err().to_string();
            assert!(fault.starts_with("store: "), "{fault}");
        }
    }

    #[test]
    fn a_clusters_node_is_reached_as_all_of_it_is() {
        let cluster = Address::parse("rediss-cluster://ann:geheim@a:1,b:2").unwrap();
        assert_eq!(cluster.nodes(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        let node = cluster.of_node("c", 3).unwrap().for_listening();
        assert_eq!(node.to_string(), "c:3");
        let Kind::Single(info) = node.kind else { panic!("one node") };
        assert!(matches!(info.addr(), ConnectionAddr::TcpTls { host, port: 3, insecure: false, .. } if host == "c"), "{:?}", info.addr());
        let login = info.redis_settings();
        assert_eq!((login.username(), login.password(), login.protocol()), (Some("ann"), Some("geheim"), ProtocolVersion::RESP3));
    }

    #[test]
    fn credentials_may_be_escaped_everywhere() {
        for url in ["redis://ann:a%40b%2Fc@h:1", "redis-cluster://ann:a%40b%2Fc@h:1,i:2", "redis-sentinel://ann:a%40b%2Fc@h:1,i:2/s"] {
            let login = match Address::parse(url).unwrap().kind {
                Kind::Single(info) => info.redis_settings().clone(),
                Kind::Cluster(nodes) => nodes[1].as_str().into_connection_info().unwrap().redis_settings().clone(),
                Kind::Sentinel { login, .. } => login,
            };
            assert_eq!((login.username(), login.password()), (Some("ann"), Some("a@b/c")), "{url}");
        }
    }
}
