//! TLS as Quipu has it: version 1.3 alone, raw public keys of type Ed25519 on both sides, no
//! tickets and no early data.

use crate::error::{LinkError, Result};
use crate::key::{Fingerprint, Key};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    Error, PeerIncompatible, ServerConfig, SignatureScheme,
};
use std::sync::{Arc, OnceLock};

/// The cryptography of all connections.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

/// The check of a raw key's signature on both sides.
fn verify(
    message: &[u8],
    key: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let info = SubjectPublicKeyInfoDer::from(key.as_ref());
    let algorithms = &provider().signature_verification_algorithms;
    verify_tls13_signature_with_raw_key(message, &info, signed, algorithms)
}

fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
}

fn fingerprint_of(
    key: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
) -> Result<Fingerprint, Error> {
    let found = Fingerprint::of_public_key(key.as_ref()).filter(|_| others.is_empty());
    found.ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

/// Takes one server's key and no other, or any that proves itself where none is expected. Takes
/// none before it is known which.
#[derive(Debug, Default)]
pub(crate) struct OnlyNode {
    expected: OnceLock<Option<Fingerprint>>,
    found: OnceLock<Fingerprint>,
}

impl OnlyNode {
    fn takes(&self, key: Fingerprint) -> bool {
        let expected = self.expected.get();
        expected.is_some_and(|expected| expected.is_none_or(|expected| key == expected))
    }

    /// Expects this key from now on, or any. The first call counts.
    pub(crate) fn expect(&self, key: Option<Fingerprint>) {
        let _ = self.expected.set(key);
    }

    /// The expected key, and the one that another server has shown instead.
    pub(crate) fn wrong_key(&self) -> Option<(Fingerprint, Fingerprint)> {
        let expected = (*self.expected.get()?)?;
        let found = *self.found.get()?;
        (found != expected).then_some((expected, found))
    }
}

impl ServerCertVerifier for OnlyNode {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = fingerprint_of(end_entity, intermediates)?;
        let _ = self.found.set(found);
        if self.takes(found) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(
            CertificateError::ApplicationVerificationFailure,
        ))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Takes any client's key that proves itself. Whether it is enrolled is looked at afterwards, so
/// that the client can be told.
#[derive(Debug)]
struct AnyClient;

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        fingerprint_of(end_entity, intermediates).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn failed(address: &str) -> impl Fn(Error) -> LinkError {
    move |source| LinkError::Tls {
        address: address.to_owned(),
        source,
    }
}

/// A client's side of a connection, to the node of a key or to any, and the verifier that will know
/// the server's key.
pub(crate) fn client(
    key: &Key,
    node: Option<Fingerprint>,
    protocol: &[u8],
    address: &str,
) -> Result<(ClientConnection, Arc<OnlyNode>)> {
    let (connection, only) = client_of_later(key, protocol, address)?;
    only.expect(node);
    Ok((connection, only))
}

/// The same, where the verifier is told later which key to expect: before the server's answer is
/// read.
pub(crate) fn client_of_later(
    key: &Key,
    protocol: &[u8],
    address: &str,
) -> Result<(ClientConnection, Arc<OnlyNode>)> {
    let only = Arc::new(OnlyNode::default());
    let resolver = AlwaysResolvesClientRawPublicKeys::new(key.certified());
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed(address))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&only) as Arc<dyn ServerCertVerifier>)
        .with_client_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    // Keys have no names; this one is not sent.
    let name = ServerName::try_from("quipu")
        .map_err(|_| failed(address)(Error::General("the name 'quipu' is none".to_owned())))?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(failed(address))?;
    Ok((connection, only))
}

/// The configuration with which a node takes connections.
pub(crate) fn server(key: &Key) -> Result<Arc<ServerConfig>> {
    let resolver = AlwaysResolvesServerRawPublicKeys::new(key.certified());
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed("this node"))?
        .with_client_cert_verifier(Arc::new(AnyClient))
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![
        quipu_protocol::PROTOCOL.to_vec(),
        quipu_protocol::ENROLMENT_PROTOCOL.to_vec(),
        quipu_protocol::PEER_PROTOCOL.to_vec(),
        quipu_protocol::PROOF_PROTOCOL.to_vec(),
    ];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
