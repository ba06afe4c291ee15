//! Invitations: one word that enrols one client, for ten minutes.
//!
//! The node keeps, for each, the SHA-256 of its token and until when it is good. A token has 256
//! random bits, so there is nothing to be gained from hashing it slowly, and looking its hash up
//! tells nothing about it.

use crate::addresses::{MOST as MOST_ADDRESSES, SEPARATOR};
use crate::base32;
use crate::clients::{Client, Clients};
use crate::clock::Clock;
use crate::error::{LinkError, Result};
use crate::folder::{Folder, Locked};
use crate::key::{Fingerprint, random, sha256};
use crate::rights::Rights;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The time for which an invitation is good.
pub const GOOD_FOR: Duration = Duration::from_secs(600);

/// Invitations that are good at the same time, at most.
const MOST: usize = 64;

/// An invitation: where a node is, which key it has, and a secret that enrols one client.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// The node's key.
    pub node: Fingerprint,
    /// The secret.
    pub token: [u8; 32],
    /// The node's address, as `host:port`; several with commas between them, if the node may be at
    /// any of these.
    pub address: String,
}

const PREFIX: &str = "quipu1";

impl fmt::Display for Invitation {
    /// The word that is given to the client's user: a secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = base32::encode(&self.token);
        write!(formatter, "{PREFIX}.{}.{token}@{}", self.node, self.address)
    }
}

impl fmt::Debug for Invitation {
    /// Without the secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Invitation(to {} at {})",
            self.node, self.address
        )
    }
}

impl FromStr for Invitation {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (secret, address) = text.trim().split_once('@')?;
            let mut parts = secret.split('.');
            if parts.next()? != PREFIX {
                return None;
            }
            let invitation = Self {
                node: parts.next()?.parse().ok()?,
                token: base32::decode(parts.next()?)?,
                address: address.to_owned(),
            };
            check_addresses(&invitation.address).ok()?;
            parts.next().is_none().then_some(invitation)
        };
        parse().ok_or_else(|| LinkError::BadText {
            what: "the invitation",
            // Not the whole text: it may be a secret with a letter missing.
            text: format!("{}…", text.chars().take(6).collect::<String>()),
            problem: "is not whole; copy the line that `quipu invite` has printed, from 'quipu1.' to the port's number",
        })
    }
}

/// Fails unless a text is `host:port`, or several with commas between them.
fn check_addresses(addresses: &str) -> Result<()> {
    let mut all = addresses.split(SEPARATOR);
    if all.clone().count() > MOST_ADDRESSES {
        return Err(LinkError::BadText {
            what: "the address",
            text: addresses.to_owned(),
            problem: "is more than 16; write those at which the node is most likely reached",
        });
    }
    all.try_for_each(check_address)
}

/// Fails unless a text is `host:port`.
pub(crate) fn check_address(address: &str) -> Result<()> {
    let bad = |problem| {
        Err(LinkError::BadText {
            what: "the address",
            text: address.to_owned(),
            problem,
        })
    };
    let Some((host, port)) = address.rsplit_once(':') else {
        return bad("has no port; write host:port");
    };
    let is_plain =
        |character: char| character.is_ascii_graphic() && !['@', SEPARATOR].contains(&character);
    if host.is_empty() || address.len() > 300 || !address.chars().all(is_plain) {
        return bad("names no host; write host:port");
    }
    let in_brackets = host.starts_with('[') && host.ends_with(']');
    if host.contains(':') && !in_brackets {
        return bad("has an IPv6 address without brackets; write [host]:port");
    }
    match port.parse::<u16>() {
        Ok(1..) => Ok(()),
        _ => bad("has no port from 1 to 65535; write host:port"),
    }
}

/// The invitations of a node.
#[derive(Clone, Debug)]
pub struct Invitations(Folder);

const FILE: &str = "invitations";

/// An invitation as the node keeps it.
struct Kept {
    hash: [u8; 32],
    until: Duration,
    /// The rights of its client.
    rights: Rights,
    /// The client that has taken it up.
    taken_up_by: Option<Fingerprint>,
}

impl Invitations {
    /// The invitations in a node's folder.
    #[must_use]
    pub fn of(folder: &Folder) -> Self {
        Self(folder.clone())
    }

    /// A new invitation to the node of this key, at an address, or several with commas between
    /// them, for a client with all rights.
    ///
    /// # Errors
    /// If the address is none, too many invitations are good, or the file cannot be used.
    pub fn invite(
        &self,
        node: Fingerprint,
        address: &str,
        clock: &dyn Clock,
    ) -> Result<Invitation> {
        self.invite_with(node, address, Rights::default(), clock)
    }

    /// The same for a client with these rights.
    ///
    /// # Errors
    /// As [`Invitations::invite`].
    pub fn invite_with(
        &self,
        node: Fingerprint,
        address: &str,
        rights: Rights,
        clock: &dyn Clock,
    ) -> Result<Invitation> {
        check_addresses(address)?;
        let token = random("make an invitation")?;
        let locked = self.0.lock()?;
        let now = clock.now();
        let mut kept = self.good(now)?;
        if kept
            .iter()
            .filter(|kept| kept.taken_up_by.is_none())
            .count()
            >= MOST
        {
            let problem = format!(
                "has {MOST} invitations that nobody has taken up; wait ten minutes, or remove the file"
            );
            return Err(LinkError::bad_file(&self.0.file(FILE), problem));
        }
        kept.push(Kept {
            hash: sha256(&token),
            until: now.saturating_add(GOOD_FOR),
            rights,
            taken_up_by: None,
        });
        self.write(&kept, &locked)?;
        Ok(Invitation {
            node,
            token,
            address: address.to_owned(),
        })
    }

    /// Takes an invitation up: the client of this key is enrolled, until the invitation is no good
    /// any more or for good if it says hello before, and the invitation is used.
    /// `None` if the token is none, was used, or is too old. The client that has used it may do so
    /// again while it is good, unless it was revoked since: the answer may have been lost, or the
    /// client could not write down what it was told.
    ///
    /// # Errors
    /// If a file cannot be used. The invitation is used up before the client is enrolled: it never
    /// enrols two clients.
    pub fn take_up(
        &self,
        token: &[u8; 32],
        client: Fingerprint,
        name: &str,
        clock: &dyn Clock,
    ) -> Result<Option<Client>> {
        let hash = sha256(token);
        let locked = self.0.lock()?;
        let now = clock.now();
        let mut kept = self.good(now)?;
        let Some(found) = kept.iter_mut().find(|kept| kept.hash == hash) else {
            return Ok(None);
        };
        let clients = Clients::of(&self.0);
        match found.taken_up_by {
            None => found.taken_up_by = Some(client),
            Some(taken_up_by) if taken_up_by == client => return clients.find(client),
            Some(_) => return Ok(None),
        }
        let rights = found.rights.clone();
        self.write(&kept, &locked)?;
        let times = (now, now.saturating_add(GOOD_FOR));
        clients
            .enrol(client, name, rights, times, &locked)
            .map(Some)
    }

    /// The invitations that are still good.
    fn good(&self, now: Duration) -> Result<Vec<Kept>> {
        let parse = |line: &String| {
            let mut fields = line.split('\t');
            let kept = Kept {
                hash: base32::decode(fields.next()?)?,
                until: Duration::from_secs(fields.next()?.parse().ok()?),
                rights: match fields.next() {
                    Some(rights) => rights.parse().ok()?,
                    None => Rights::default(),
                },
                taken_up_by: match fields.next() {
                    Some(client) => Some(client.parse().ok()?),
                    None => None,
                },
            };
            fields.next().is_none().then_some(kept)
        };
        let lines = self.0.read_lines(FILE)?;
        let parsed: Option<Vec<Kept>> = lines.iter().map(parse).collect();
        let mut kept = parsed.ok_or_else(|| {
            LinkError::bad_file(
                &self.0.file(FILE),
                "is not a list of invitations; remove it",
            )
        })?;
        // An invitation that is good for longer than ten minutes was made by a clock that has been
        // set back since.
        let latest = now.saturating_add(GOOD_FOR);
        kept.retain(|kept| now < kept.until && kept.until <= latest);
        Ok(kept)
    }

    fn write(&self, kept: &[Kept], locked: &Locked) -> Result<()> {
        let lines = kept.iter().map(|kept| {
            let (hash, until) = (base32::encode(&kept.hash), kept.until.as_secs());
            let mut line = format!("{hash}\t{until}\t{}", kept.rights);
            if let Some(client) = kept.taken_up_by {
                line.push_str(&format!("\t{client}"));
            }
            line
        });
        self.0.write_lines(FILE, lines, locked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock that stands still until it is set.
    struct Set(AtomicU64);

    impl Clock for Set {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }
    }

    fn node() -> (tempfile::TempDir, Folder, Fingerprint) {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("node")).unwrap();
        let key = Key::of(&folder, "node.key").unwrap().fingerprint();
        (parent, folder, key)
    }

    #[test]
    fn an_invitation_is_good_for_one_client() {
        let (_parent, folder, key) = node();
        let other = Fingerprint::of_bytes([7; 32]);
        let (invitations, clock) = (Invitations::of(&folder), Set(1_000_000.into()));
        let first = invitations.invite(key, "host:7", &clock).unwrap();
        let second = invitations.invite(key, "host:7", &clock).unwrap();
        assert_ne!(first.token, second.token);
        // Of a token, nothing but its hash is ever in the folder.
        let kept = String::from_utf8(folder.read(FILE).unwrap().unwrap()).unwrap();
        let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for invitation in [&first, &second] {
            let token: String = hexadecimal(&invitation.token);
            let line = invitation.to_string();
            let written = line.split(['.', '@']).nth(2).unwrap();
            assert!(!kept.contains(&token) && !kept.contains(written), "{kept}");
        }
        let take_by = |key, token: &[u8; 32]| {
            let client = invitations.take_up(token, key, "laptop", &clock);
            client.unwrap()
        };
        let take = |token: &[u8; 32]| take_by(key, token);
        assert_eq!(take(&[0; 32]), None);
        let client = take(&first.token).unwrap();
        assert_eq!(client.name, "laptop");
        assert_eq!(take_by(other, &first.token), None);
        assert!(take(&second.token).is_some());
        let clients = Clients::of(&folder);
        assert!(clients.find(other).unwrap().is_none());
        // The answer may have been lost.
        assert_eq!(take(&first.token), clients.find(key).unwrap());
        // But the operator has the last word.
        clients.revoke("laptop").unwrap();
        assert_eq!(take(&first.token), None);
        assert!(clients.find(key).unwrap().is_none());
        // Those that were taken up leave their room to others.
        for _ in 0..MOST {
            invitations.invite(key, "host:7", &clock).unwrap();
        }
        invitations.invite(key, "host:7", &clock).unwrap_err();
    }

    #[test]
    fn who_takes_it_up_has_the_rights_that_it_was_made_with() {
        let (_parent, folder, key) = node();
        let (invitations, clock) = (Invitations::of(&folder), Set(5000.into()));
        let rights: Rights = "devices=cuda:0 memory=1024".parse().unwrap();
        let some = invitations.invite_with(key, "host:7", rights.clone(), &clock);
        let all = invitations.invite(key, "host:7", &clock).unwrap().token;
        let take = |token: &[u8; 32]| {
            let client = invitations.take_up(token, key, "laptop", &clock);
            client.unwrap().unwrap().rights
        };
        assert_eq!(take(&some.unwrap().token), rights);
        assert_eq!(
            Clients::of(&folder).find(key).unwrap().unwrap().rights,
            rights
        );
        // Again, by another invitation, which sets its rights anew.
        assert!(take(&all).are_all());
    }

    #[test]
    fn it_is_good_for_ten_minutes() {
        let (_parent, folder, key) = node();
        let (invitations, clock) = (Invitations::of(&folder), Set(1_000_000.into()));
        let made = || invitations.invite(key, "host:7", &clock).unwrap().token;
        let (early, late, ahead) = (made(), made(), made());
        let take = |token: &[u8; 32], at: u64| {
            clock.0.store(at, Ordering::Relaxed);
            invitations
                .take_up(token, key, "x", &clock)
                .unwrap()
                .is_some()
        };
        assert!(take(&early, 1_000_599));
        assert!(!take(&late, 1_000_600));
        // Set back: its age is not known.
        assert!(!take(&ahead, 999_999));
        let text = String::from_utf8(folder.read(FILE).unwrap().unwrap()).unwrap();
        assert!(!text.contains(&base32::encode(&ahead)));
    }

    #[test]
    fn two_who_take_it_up_at_once_are_not_both_enrolled() {
        let (_parent, folder, key) = node();
        let clock = Set(5000.into());
        let invitation = Invitations::of(&folder)
            .invite(key, "host:7", &clock)
            .unwrap();
        let taken: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let (folder, clock, token) = (folder.clone(), &clock, invitation.token);
                    scope.spawn(move || {
                        let name = format!("client {number}");
                        let client = Fingerprint::of_bytes([number; 32]);
                        let invitations = Invitations::of(&folder);
                        invitations
                            .take_up(&token, client, &name, clock)
                            .unwrap()
                            .is_some()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| u32::from(thread.join().unwrap()))
                .sum()
        });
        assert_eq!(taken, 1);
        assert_eq!(Clients::of(&folder).list().unwrap().len(), 1);
    }

    #[test]
    fn there_are_not_too_many() {
        let (_parent, folder, key) = node();
        let (invitations, clock) = (Invitations::of(&folder), Set(5000.into()));
        for _ in 0..MOST {
            invitations.invite(key, "host:7", &clock).unwrap();
        }
        let error = invitations.invite(key, "host:7", &clock).unwrap_err();
        assert!(error.to_string().contains("wait ten minutes"), "{error}");
        clock.0.store(5600, Ordering::Relaxed);
        invitations.invite(key, "host:7", &clock).unwrap();
    }

    #[test]
    fn the_word_comes_back_and_others_are_refused() {
        let (_parent, _folder, node) = node();
        for address in [
            "host:7001",
            "10.0.0.1:1",
            "[fe80::1]:65535",
            "10.0.0.1:4760,[fd00::1]:4760,host:4760",
        ] {
            let invitation = Invitation {
                node,
                token: [9; 32],
                address: address.to_owned(),
            };
            let word = invitation.to_string();
            assert_eq!(word.parse::<Invitation>().unwrap(), invitation);
            assert_eq!(
                format!(" {word}\n").parse::<Invitation>().unwrap(),
                invitation
            );
            assert!(!format!("{invitation:?}").contains(&base32::encode(&[9; 32])));
            let first = word.find(SEPARATOR).unwrap_or(word.len());
            for end in 0..first - 1 {
                // An address cut short may be one: of a name, of a port.
                let is_good = word[..end].parse::<Invitation>().is_ok();
                assert!(!is_good || end > first - 5, "{}", &word[..end]);
            }
            let error = word[..100].parse::<Invitation>().unwrap_err();
            assert!(!error.to_string().contains(&word[60..90]), "{error}");
        }
    }

    #[test]
    fn addresses_are_hosts_and_ports() {
        for good in ["a:1", "node.local:7001", "[::1]:1", "10.1.2.3:65535"] {
            check_address(good).unwrap();
        }
        for bad in [
            "", ":", "a", "a:", ":1", "a:0", "a:65536", "::1:5", "a b:1", "a\n:1", "ä:1", "x@y:1",
            "a,b:1",
        ] {
            assert!(check_address(bad).is_err(), "{bad}");
            for some in [format!("a:1,{bad}"), format!("{bad},a:1")] {
                assert!(check_addresses(&some).is_err(), "{some}");
            }
        }
        check_addresses(&vec!["a:1"; MOST_ADDRESSES].join(",")).unwrap();
        assert!(check_addresses(&vec!["a:1"; MOST_ADDRESSES + 1].join(",")).is_err());
    }
}
