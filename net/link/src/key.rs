//! A machine's own key, and fingerprints.

use crate::base32;
use crate::error::{LinkError, Result};
use crate::folder::Folder;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The identity of a key: the SHA-256 of the public key. Written as 52 lower-case characters of
/// base 32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

/// The prefix of an Ed25519 public key of 32 bytes as a `SubjectPublicKeyInfo` (RFC 8410).
const ED25519: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

impl Fingerprint {
    /// Its bytes, as messages have them.
    #[must_use]
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// The fingerprint of these bytes.
    #[must_use]
    pub fn of_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The fingerprint of a `SubjectPublicKeyInfo`, if it is that of an Ed25519 key: no other is
    /// ever ours.
    pub(crate) fn of_public_key(info: &[u8]) -> Option<Self> {
        if info.len() != ED25519.len() + 32 || !info.starts_with(&ED25519) {
            return None;
        }
        Some(Self(sha256(info)))
    }
}

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let mut sum = [0; 32];
    sum.copy_from_slice(digest.as_ref());
    sum
}

/// Random bytes for secrets.
pub(crate) fn random<const N: usize>(what: &'static str) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut bytes)
        .map_err(|_| LinkError::Random(what))?;
    Ok(bytes)
}

/// A ticket for one connection from node to node: random, and no other's.
///
/// # Errors
/// If the system gives no random numbers.
pub fn ticket() -> Result<[u8; 32]> {
    random("make a ticket")
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&base32::encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self> {
        base32::decode(text)
            .map(Self)
            .ok_or_else(|| LinkError::BadText {
                what: "the fingerprint",
                text: text.to_owned(),
                problem: "is not 52 letters and digits from 2 to 7",
            })
    }
}

/// A machine's own key.
#[derive(Clone)]
pub struct Key {
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl fmt::Debug for Key {
    /// Without the private part.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({})", self.fingerprint)
    }
}

impl Key {
    /// The key in a file of a folder, made if there is none.
    ///
    /// # Errors
    /// If the file cannot be used, others may read it, or no key is in it.
    pub fn of(folder: &Folder, name: &str) -> Result<Self> {
        let locked = folder.lock()?;
        let document = match folder.read(name)? {
            Some(document) => document,
            None => {
                let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                    .map_err(|_| LinkError::Random("make a key"))?;
                folder.write(name, made.as_ref(), &locked)?;
                made.as_ref().to_vec()
            }
        };
        Self::parse(document).ok_or_else(|| {
            LinkError::bad_file(
                &folder.file(name),
                "holds no Ed25519 key (PKCS #8); move it away, and a new one is made, with which one has to pair again",
            )
        })
    }

    /// A key of its own for something that does not last: it is in this process's memory, and
    /// nowhere else.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn passing() -> Result<Self> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok();
        let key = made.and_then(|made| Self::parse(made.as_ref().to_vec()));
        key.ok_or(LinkError::Random("make a key"))
    }

    fn parse(document: Vec<u8>) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8(&document).ok()?;
        let info = [&ED25519, pair.public_key().as_ref()].concat();
        let fingerprint = Fingerprint::of_public_key(&info)?;
        let signing =
            rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(document)).ok()?;
        let certified = CertifiedKey::new(vec![CertificateDer::from(info)], signing);
        Some(Self {
            certified: Arc::new(certified),
            fingerprint,
        })
    }

    /// The public part's fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The key as TLS takes it.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("keys")).unwrap();
        let first = Key::of(&folder, "node.key").unwrap();
        let again = Key::of(&folder, "node.key").unwrap();
        let other = Key::of(&folder, "client.key").unwrap();
        assert_eq!(first.fingerprint(), again.fingerprint());
        assert_ne!(first.fingerprint(), other.fingerprint());
        let text = first.fingerprint().to_string();
        assert_eq!(text.parse::<Fingerprint>().unwrap(), first.fingerprint());
        assert!(!format!("{first:?}").contains("PrivateKey"));
    }

    #[test]
    fn what_is_no_key_is_refused_and_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("keys")).unwrap();
        let locked = folder.lock().unwrap();
        folder.write("node.key", b"no key", &locked).unwrap();
        drop(locked);
        let error = Key::of(&folder, "node.key").unwrap_err();
        assert!(
            error.to_string().contains("holds no Ed25519 key"),
            "{error}"
        );
        assert_eq!(folder.read("node.key").unwrap().unwrap(), b"no key");
        assert!("x".parse::<Fingerprint>().is_err());
    }

    #[test]
    fn fingerprints_are_of_public_keys_of_one_type() {
        let mut info = [&ED25519[..], &[7; 32]].concat();
        assert!(Fingerprint::of_public_key(&info).is_some());
        info[8] ^= 1;
        assert!(Fingerprint::of_public_key(&info).is_none());
        assert!(Fingerprint::of_public_key(&ED25519).is_none());
        assert!(Fingerprint::of_public_key(&[]).is_none());
    }
}
