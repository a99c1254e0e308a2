//! Which addresses may be connected to.
//!
//! A webhook's URL is chosen by somebody outside, the connection comes from inside. Unless it is allowed,
//! only what the public Internet routes is reached. For IPv6 that is said positively, because it is one
//! block with a few holes; for IPv4 it is a list of what is not public, after the registries of special
//! addresses that IANA keeps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::target::Target;

/// What of IPv4 is not public.
const V4_SPECIAL: &[Ipv4Net] = &[
    v4([0, 0, 0, 0], 8),       // "this network"; 0.0.0.0 reaches the machine itself
    v4([10, 0, 0, 0], 8),      // private
    v4([100, 64, 0, 0], 10),   // behind a carrier's NAT
    v4([127, 0, 0, 0], 8),     // loopback
    v4([169, 254, 0, 0], 16),  // link-local, and the metadata services of clouds
    v4([172, 16, 0, 0], 12),   // private
    v4([192, 0, 0, 0], 24),    // protocol assignments
    v4([192, 0, 2, 0], 24),    // documentation
    v4([192, 88, 99, 0], 24),  // relays to IPv6
    v4([192, 168, 0, 0], 16),  // private
    v4([198, 18, 0, 0], 15),   // benchmarks
    v4([198, 51, 100, 0], 24), // documentation
    v4([203, 0, 113, 0], 24),  // documentation
    v4([224, 0, 0, 0], 4),     // multicast
    v4([240, 0, 0, 0], 4),     // reserved, and broadcast
];

/// What of IPv6 is public, but for [`V6_SPECIAL`]. Loopback, link-local, unique local, multicast, mapped
/// and translated addresses all lie outside.
const V6_PUBLIC: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The holes in [`V6_PUBLIC`].
const V6_SPECIAL: &[Ipv6Net] = &[
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),     // protocol assignments, tunnels (Teredo) among them
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),     // 6to4: carries an IPv4 address
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),     // documentation
];

/// IPv6 addresses whose last 32 bits are an IPv4 address: mapped, compatible, NAT64.
const V6_CARRIERS: &[Ipv6Net] =
    &[v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), v6([0, 0, 0, 0, 0, 0, 0, 0], 96), v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96)];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

/// What may be connected to.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// What is allowed beside the public Internet.
    pub allow_private: Private,
}

/// Addresses that are not public, and allowed all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Private {
    /// None.
    #[default]
    None,
    /// These networks.
    Nets(Vec<IpNet>),
    /// All, also the metadata service of a cloud: for machines where nobody else writes URLs.
    All,
}

/// A list of networks that does not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} must be none, all, or networks such as 10.0.0.0/8, fd00::/8")]
pub struct BadNets(String);

impl Private {
    /// This machine only.
    pub fn loopback() -> Private {
        Private::Nets(vec![v4([127, 0, 0, 0], 8).into(), v6([0, 0, 0, 0, 0, 0, 0, 1], 128).into()])
    }

    fn names(&self, ip: IpAddr) -> bool {
        match self {
            Private::None => false,
            Private::Nets(nets) => nets.iter().any(|net| net.contains(&ip)),
            Private::All => true,
        }
    }
}

impl FromStr for Private {
    type Err = BadNets;

    /// Reads `none`, `all`, or networks and addresses separated by commas.
    fn from_str(text: &str) -> Result<Private, BadNets> {
        match text.trim() {
            "" | "none" => return Ok(Private::None),
            "all" => return Ok(Private::All),
            _ => {}
        }
        let nets = text.split(',').map(|part| {
            let part = part.trim();
            let alone = || part.parse::<IpAddr>().map(IpNet::from);
            part.parse::<IpNet>().or_else(|_| alone()).map_err(|_| BadNets(part.to_owned()))
        });
        Ok(Private::Nets(nets.collect::<Result<_, _>>()?))
    }
}

impl Guard {
    /// Whether `ip` may be connected to.
    pub fn admits(&self, ip: IpAddr) -> bool {
        (is_public(ip) || self.allow_private.names(ip)) && carried(ip).is_none_or(|inner| self.admits(IpAddr::V4(inner)))
    }

    /// Whether `target` may be called as far as its text tells. A name is judged by its addresses, anew at
    /// every connection, so this is for an early answer to whoever sets an endpoint up.
    pub fn admits_text(&self, target: &Target) -> bool {
        target.literal().is_none_or(|ip| self.admits(ip))
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !V4_SPECIAL.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => V6_PUBLIC.contains(&ip) && !V6_SPECIAL.iter().any(|net| net.contains(&ip)),
    }
}

/// The IPv4 address that an IPv6 address stands for. Allowing the outer network must not allow all of the
/// inner one: who runs NAT64 has not opened 10.0.0.0/8 by that.
fn carried(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    if ip.is_loopback() || ip.is_unspecified() || !V6_CARRIERS.iter().any(|net| net.contains(&ip)) {
        return None;
    }
    let [.., a, b, c, d] = ip.octets();
    Some(Ipv4Addr::new(a, b, c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(guard: &Guard, ip: &str) -> bool {
        guard.admits(ip.parse().unwrap())
    }

    fn allowing(text: &str) -> Guard {
        Guard { allow_private: text.parse().unwrap() }
    }

    #[test]
    fn only_the_public_internet_is_admitted() {
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00::1",
            "2001:4860:4860::8888",
            "2001:200::1",
        ];
        let special = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "169.254.0.1",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::808:808",
            "64:ff9b:1::7f00:1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        let guard = Guard::default();
        for ip in public {
            assert!(admits(&guard, ip), "{ip}");
        }
        for ip in special {
            assert!(!admits(&guard, ip), "{ip}");
            assert!(admits(&allowing("all"), ip), "{ip}");
        }
    }

    #[test]
    fn what_is_allowed_is_what_is_named() {
        let guard = allowing("10.1.0.0/16, 192.168.7.7,fd00::/8");
        for (ip, expected) in [("10.1.2.3", true), ("10.2.0.0", false), ("192.168.7.7", true), ("192.168.7.8", false), ("fd00::1", true)] {
            assert_eq!(admits(&guard, ip), expected, "{ip}");
        }
        assert!(admits(&guard, "8.8.8.8"), "the public Internet stays open");
        assert!(!admits(&guard, "::ffff:10.1.2.3"), "a spelling that nobody needs is not opened");
        let loopback = Guard { allow_private: Private::loopback() };
        assert!(admits(&loopback, "127.0.0.1") && admits(&loopback, "::1") && !admits(&loopback, "10.0.0.1"));
    }

    #[test]
    fn a_translator_does_not_open_what_lies_behind_it() {
        let guard = allowing("64:ff9b::/96");
        assert!(admits(&guard, "64:ff9b::808:808"));
        assert!(!admits(&guard, "64:ff9b::a00:1"), "10.0.0.1");
        assert!(!admits(&guard, "64:ff9b::a9fe:a9fe"), "169.254.169.254");
        assert!(admits(&allowing("64:ff9b::/96, 10.0.0.0/8"), "64:ff9b::a00:1"));
    }

    #[test]
    fn a_list_that_does_not_read_says_which_part() {
        assert_eq!("".parse(), Ok(Private::None));
        assert_eq!("none".parse(), Ok(Private::None));
        assert_eq!(
            "10.0.0.0/8, x".parse::<Private>().unwrap_err().to_string(),
            "\"x\" must be none, all, or networks such as 10.0.0.0/8, fd00::/8"
        );
        assert!("10.0.0.0/33".parse::<Private>().is_err());
    }

    #[test]
    fn a_literal_is_refused_before_anything_is_sent() {
        let text = |url: &str| Guard::default().admits_text(&Target::parse(url).unwrap());
        assert!(!text("http://0x7f.1/") && !text("http://[::ffff:10.0.0.1]/") && !text("http://169.254.169.254/latest/meta-data"));
        assert!(text("https://example.com/") && text("http://1.1.1.1/"));
    }
}
