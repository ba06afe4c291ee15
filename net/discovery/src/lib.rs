//! Discovery on the local network: a node announces its address, and clients listen. It uses
//! multicast DNS (RFC 6762) with a service of DNS-SD (RFC 6763), so the network's other tools show
//! the node, too.
//!
//! An announcement is only a suggestion, because every machine on the network can announce
//! anything. A client dials only nodes that it was paired with, and the node proves its key there.
//! So a false announcement costs at most a connection that fails.
//!
//! A service is of type `_quipu._tcp.local.`, and has its node's address and port. Its TXT record
//! has `key`, the fingerprint of the node's key, and `name`, the node's name.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use quipu_environment::DISCOVERY;
use quipu_link::Fingerprint;
use quipu_link::timer::deadline_after;
use quipu_protocol::message::presentable;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The name of the services of nodes.
pub const SERVICE: &str = "_quipu._tcp.local.";

/// Bytes of a name, at most, in a text of 255 with its key.
const MAX_NAME: usize = 200;

/// Bytes of a name in the service's name, at most, which is 63 with the key's.
const MAX_INSTANCE: usize = 48;

/// Nodes that are listed, at most: a network with more is not to be trusted.
const MAX_HEARD: usize = 256;

/// The reason for which nothing is announced or heard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The system gives no socket or thread, or a name cannot be said.
    #[error("cannot speak to the local network by mDNS: {0}")]
    Mdns(#[from] mdns_sd::Error),
    /// Others cannot get there.
    #[error(
        "{0} is this machine's alone, so there is nothing to announce; listen at another address (`--address`)"
    )]
    OwnAddress(SocketAddr),
    /// A variable of the environment makes no sense.
    #[error(transparent)]
    Environment(#[from] quipu_environment::Misused),
}

/// The announcement of a node, for as long as this lives.
pub struct Announcement {
    daemon: ServiceDaemon,
    service: String,
}

impl std::fmt::Debug for Announcement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Announcement");
        shown
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

/// The daemon that speaks to the network. Nothing is said to this machine alone.
fn daemon() -> Result<ServiceDaemon, DiscoveryError> {
    let daemon = ServiceDaemon::new()?;
    daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
    Ok(daemon)
}

/// As much of a text as so many bytes hold.
fn shortened(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

impl Announcement {
    /// Announces a node that listens there: at all of the machine's addresses, also those that it
    /// has later, if it does at all of them.
    ///
    /// # Errors
    /// If it listens where no other machine gets, or the network cannot be spoken to.
    pub fn of(
        name: &str,
        node: Fingerprint,
        listening: SocketAddr,
    ) -> Result<Self, DiscoveryError> {
        if listening.ip().is_loopback() {
            return Err(DiscoveryError::OwnAddress(listening));
        }
        let key = node.to_string();
        // Its name there has to be its own, and have no dots, which separate names.
        let called = presentable(name, MAX_INSTANCE).replace(['.', '\n', '\t'], " ");
        let instance = format!("{} {}", shortened(&called, MAX_INSTANCE), &key[..8]);
        let host = format!("quipu-{}.local.", &key[..16]);
        let said = presentable(name, MAX_NAME);
        let texts = [("key", key.as_str()), ("name", shortened(&said, MAX_NAME))];
        let port = listening.port();
        let service = match listening.ip() {
            any if any.is_unspecified() => {
                ServiceInfo::new(SERVICE, &instance, &host, "", port, &texts[..])?
                    .enable_addr_auto()
            }
            address => ServiceInfo::new(SERVICE, &instance, &host, address, port, &texts[..])?,
        };
        let daemon = daemon()?;
        let announcement = Self {
            service: service.get_fullname().to_owned(),
            daemon,
        };
        announcement.daemon.register(service)?;
        Ok(announcement)
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // It says goodbye, if it can: without a goodbye, others find out.
        if let Ok(done) = self.daemon.unregister(&self.service) {
            let _ = done.recv_timeout(Duration::from_secs(1));
        }
        let _ = self.daemon.shutdown();
    }
}

/// A node that is announced on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The key that it says it has.
    pub node: Fingerprint,
    /// Its own name, without characters that terminals would act on.
    pub name: String,
    /// Its addresses, by its own words, as `host:port`, the likeliest first.
    pub addresses: Vec<String>,
}

impl Heard {
    /// The announcement of a service, if it makes sense.
    fn of(service: &ResolvedService) -> Option<Self> {
        let text = |what| service.get_property_val_str(what);
        let node: Fingerprint = text("key")?.parse().ok()?;
        let name = presentable(text("name").unwrap_or_default(), MAX_NAME);
        let addresses = service.addresses.iter().map(|address| address.to_ip_addr());
        let mut addresses: Vec<IpAddr> = addresses.filter(is_reachable).collect();
        addresses.sort_by_key(|address| (address.is_ipv6(), *address));
        if service.port == 0 || addresses.is_empty() {
            return None;
        }
        let of_port = |address| SocketAddr::new(address, service.port).to_string();
        Some(Self {
            node,
            name: name.replace(['\n', '\t'], " "),
            addresses: addresses.into_iter().map(of_port).collect(),
        })
    }
}

/// False for addresses that mean nothing here, or another thing on each of a machine's networks.
fn is_reachable(address: &IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(is_local || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

/// Looks for nodes for so long, or until one that is heard is `enough`: all that were heard, in the
/// order of their keys. None if the environment says `QUIPU_DISCOVERY=off`.
///
/// # Errors
/// If the network cannot be spoken to, or the variable makes no sense.
pub fn look(
    patience: Duration,
    mut enough: impl FnMut(&Heard) -> bool,
) -> Result<Vec<Heard>, DiscoveryError> {
    let mut all: Vec<Heard> = Vec::new();
    if DISCOVERY.get()? == Some(false) {
        return Ok(all);
    }
    let daemon = daemon()?;
    let events = daemon.browse(SERVICE)?;
    let until = deadline_after(patience);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // It has ended early, or the time is over.
        let Ok(event) = events.recv_timeout(left) else {
            break;
        };
        let ServiceEvent::ServiceResolved(service) = event else {
            continue;
        };
        let Some(heard) = Heard::of(&service) else {
            tracing::debug!(service = service.get_fullname(), "it makes no sense");
            continue;
        };
        let is_enough = enough(&heard);
        // A later announcement of a key is newer.
        all.retain(|other| other.node != heard.node);
        if all.len() < MAX_HEARD || is_enough {
            all.push(heard);
        }
        if is_enough {
            break;
        }
    }
    let _ = daemon.shutdown();
    all.sort_by_key(|heard| heard.node.to_string());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Fingerprint {
        let text = "abcdefghijklmnopqrstuvwxyz234567".as_bytes()[usize::from(byte)];
        let text = std::iter::repeat_n(char::from(text), 51).collect::<String>() + "a";
        text.parse().unwrap()
    }

    fn service(texts: &[(&str, &str)], addresses: &str, port: u16) -> ResolvedService {
        let service = ServiceInfo::new(SERVICE, "x", "x.local.", addresses, port, texts).unwrap();
        service.as_resolved_service()
    }

    #[test]
    fn what_is_heard_makes_sense_or_is_left_out() {
        let known = key(1).to_string();
        let heard =
            |texts: &[(&str, &str)], addresses, port| Heard::of(&service(texts, addresses, port));
        let good = [("key", known.as_str()), ("name", "l\u{1b}[31mab\n")];
        let addresses = "fe80::1,2001:db8::1,10.0.0.2,127.0.0.1";
        let one = heard(&good, addresses, 4760).unwrap();
        assert_eq!(one.node, key(1));
        assert_eq!(one.addresses, ["10.0.0.2:4760", "[2001:db8::1]:4760"]);
        assert!(!one.name.contains(char::is_control), "{:?}", one.name);
        for (texts, addresses, port) in [
            (&good[..], "127.0.0.1", 4760),
            (&good, "10.0.0.2", 0),
            (&good[1..], "10.0.0.2", 4760),
            (&[("key", "short")], "10.0.0.2", 4760),
        ] {
            assert_eq!(
                heard(texts, addresses, port),
                None,
                "{texts:?} {addresses} {port}"
            );
        }
    }

    #[test]
    fn what_nobody_else_reaches_is_not_announced() {
        let own = SocketAddr::from(([127, 0, 0, 1], 4760));
        let refused = Announcement::of("lab", key(1), own).unwrap_err();
        assert!(refused.to_string().contains("--address"), "{refused}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_announces_is_heard_and_who_moves_is_heard_again() {
        use quipu_lab_network::{Machine, Switch};
        use std::net::Ipv4Addr;
        if !quipu_lab_network::lab_or_skip() {
            return;
        }
        let switch = Switch::new().unwrap();
        let [node, client] = [(); 2].map(|()| Machine::new().unwrap());
        let cable = switch
            .attach(&node, Ipv4Addr::new(10, 3, 0, 1), None)
            .unwrap();
        switch
            .attach(&client, Ipv4Addr::new(10, 3, 0, 2), None)
            .unwrap();
        let everywhere = SocketAddr::from(([0, 0, 0, 0], 4760));
        let long = "ä".repeat(300);
        let announced = node.enter(|| {
            [("lab", 1), (&long, 2)]
                .map(|(name, byte)| Announcement::of(name, key(byte), everywhere).unwrap())
        });
        let look_for = |node, address: &str| {
            // For as long as it takes: no one waits for the end of it.
            let is_it =
                |heard: &Heard| heard.node == node && heard.addresses.contains(&address.to_owned());
            let heard = client.enter(|| look(Duration::from_secs(600), is_it).unwrap());
            heard.into_iter().find(is_it).unwrap()
        };
        assert_eq!(look_for(key(1), "10.3.0.1:4760").name, "lab");
        assert!(look_for(key(2), "10.3.0.1:4760").name.starts_with("ää"));
        cable.move_to(Ipv4Addr::new(10, 3, 0, 7)).unwrap();
        look_for(key(1), "10.3.0.7:4760");
        drop(announced);
    }
}
