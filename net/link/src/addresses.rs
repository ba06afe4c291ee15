//! The addresses of a node, for its invitations.

use crate::invitation::check_address;
use std::net::{IpAddr, SocketAddr};

/// Between addresses, where there may be several.
pub(crate) const SEPARATOR: char = ',';

/// Addresses that one may have, at most.
pub(crate) const MOST: usize = 16;

/// Interfaces' addresses that are told, at most.
const MOST_TOLD: usize = 8;

/// The addresses to tell others of a node that listens there. If it listens at every address of the
/// machine, they are all present ones and its name, with commas between them; else the same
/// address. Text that is no address with a port is left as it is.
#[must_use]
pub fn reachable(listening: &str) -> String {
    match listening.parse::<SocketAddr>() {
        Ok(any) if any.ip().is_unspecified() => {
            let own = if_addrs::get_if_addrs().unwrap_or_default();
            let own = own.iter().map(if_addrs::Interface::ip);
            listed(any, own, &crate::machine_name())
        }
        _ => listening.to_owned(),
    }
}

/// These addresses of a machine of this name, as far as others may reach them.
fn listed(any: SocketAddr, own: impl Iterator<Item = IpAddr>, name: &str) -> String {
    let port = any.port();
    let others_reach = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        // One of the link alone would need the name of an interface, which is another on each
        // machine.
        IpAddr::V6(ip) => any.is_ipv6() && !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let mut ips: Vec<IpAddr> = own.filter(others_reach).collect();
    ips.sort_by_key(IpAddr::is_ipv6);
    ips.dedup();
    ips.truncate(MOST_TOLD);
    if ips.is_empty() {
        // It is in no network: any program here may come.
        ips.push(match any {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let ips = ips.into_iter();
    let mut all: Vec<String> = ips
        .map(|ip| SocketAddr::new(ip, port).to_string())
        .collect();
    // Behind them: to ask for an unknown name takes a while.
    let named = format!("{name}:{port}");
    if name != "localhost" && check_address(&named).is_ok() {
        all.push(named);
    }
    all.join(&SEPARATOR.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(any: &str, own: &[&str], name: &str) -> String {
        let own = own.iter().map(|ip| ip.parse().unwrap());
        listed(any.parse().unwrap(), own, name)
    }

    #[test]
    fn what_others_may_reach_is_told_and_the_name_last() {
        let own = [
            "127.0.0.1",
            "::1",
            "fe80::1",
            "fd00::5",
            "169.254.1.1",
            "10.0.0.5",
            "192.168.1.7",
        ];
        assert_eq!(
            list("0.0.0.0:4760", &own, "lab"),
            "10.0.0.5:4760,192.168.1.7:4760,lab:4760"
        );
        assert_eq!(
            list("[::]:7", &own, "the lab"),
            "10.0.0.5:7,192.168.1.7:7,[fd00::5]:7"
        );
        assert_eq!(list("0.0.0.0:7", &own[..3], "localhost"), "127.0.0.1:7");
        assert_eq!(list("[::]:7", &own[..3], "a,b"), "[::1]:7");
    }

    #[test]
    fn what_says_where_it_is_stays_as_it_is() {
        for address in ["10.1.2.3:4760", "lab:4760", "a:1,b:2", "nonsense"] {
            assert_eq!(reachable(address), address);
        }
        assert!(reachable("0.0.0.0:4760").contains(":4760"));
    }
}
