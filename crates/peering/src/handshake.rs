//! The proof of both sides of a connection that they know the key of its kind, and the keys of the
//! frames that follow. This module computes; it reads and writes no connection.
//!
//! ```text
//! dialer → listener   hello   magic, volume, dialer, listener, challenge            76 bytes
//! listener → dialer   answer  magic, volume, listener, challenge, listener's proof  98 bytes
//! dialer → listener   proof   dialer's proof                                        32 bytes
//! listener → dialer   verdict one encrypted byte                                    21 bytes
//! ```
//!
//! Roles: one session dials, the other one listens. A proof is the
//! HMAC-SHA256 of the role's label, the hello and the answer without its proof. It therefore covers
//! the volume, both sessions, both challenges and the role. For example, a stranger who repeats a
//! recorded proof fails at the listener's new challenge, and a stranger who sends the listener's
//! proof back fails at the label.
//!
//! There are two kinds of connections. Over TCP the key is a secret that follows from the volume's
//! master key. Through a socket file the key follows from a random secret in the listener's session
//! record. So both sides can read the records of the volume, or are that session. The kernel helps:
//! only the user of the listener and root can open the file, and the dialer compares the user of
//! the listener with the one in the record.
//!
//! Invariant: until both proofs are verified, a side reads only messages of these fixed lengths.
//!
//! The keys of the frames depend on the key and both challenges. If the secret becomes known later,
//! recorded connections over TCP can be decrypted: they contain names of files, and no content.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf::{self, HKDF_SHA256, Prk};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use record::{Nonce, SocketSecret};

use crate::frame::{FrameOpener, FrameSealer, HEADER_BYTES, KEY_BYTES, TAG_BYTES, frame_key};

/// The key from which the proofs and the keys of the frames of a connection follow. Its debug form
/// shows nothing.
#[derive(Clone)]
pub struct PeeringKey([u8; PeeringKey::BYTES]);

impl PeeringKey {
    /// The length of the secret, in bytes.
    pub const BYTES: usize = 32;

    /// Takes a secret that only the processes of one volume know, for example one that is derived
    /// from the volume's master key for this purpose alone.
    pub fn new(secret: [u8; PeeringKey::BYTES]) -> PeeringKey {
        PeeringKey(secret)
    }

    /// Returns the key of the connections through a socket file with this secret.
    fn of_socket_file(secret: &SocketSecret) -> PeeringKey {
        let root = hkdf::Salt::new(HKDF_SHA256, b"ashlar peer socket file").extract(&secret.0);
        PeeringKey(expanded(&root, &[b"key"]))
    }
}

impl fmt::Debug for PeeringKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeeringKey")
    }
}

/// The length of a volume's id, in bytes.
const VOLUME_BYTES: usize = 16;

/// The length of a challenge, in bytes.
pub const CHALLENGE_BYTES: usize = 32;

/// The length of a proof, in bytes.
pub const PROOF_BYTES: usize = 32;

/// The first bytes of a hello and of an answer, before the version.
const MAGIC: &[u8; 7] = b"ashlarP";

/// The version of the handshake, the frames and the messages.
pub const VERSION: u8 = 1;

/// The length of the magic and the version, in bytes.
pub(crate) const MAGIC_BYTES: usize = MAGIC.len() + 1;

/// The length of a hello, in bytes.
pub const HELLO_BYTES: usize = MAGIC_BYTES + VOLUME_BYTES + 2 * Nonce::BYTES + CHALLENGE_BYTES;

/// The length of an answer without its proof, in bytes.
const CLAIM_BYTES: usize = MAGIC_BYTES + VOLUME_BYTES + Nonce::BYTES + CHALLENGE_BYTES;

/// The length of an answer, in bytes.
pub const ANSWER_BYTES: usize = CLAIM_BYTES + PROOF_BYTES;

/// The length of the listener's verdict, in bytes.
pub(crate) const VERDICT_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;

/// The content of a verdict. No message begins with these bytes.
const ACCEPTED: u8 = 0xa0;
const FULL: u8 = 0xa1;

const LISTENER_PROVES: &[u8] = b"ashlar peer listener proof";
const DIALER_PROVES: &[u8] = b"ashlar peer dialer proof";
const FROM_LISTENER: &[u8] = b"ashlar peer frames of the listener";
const FROM_DIALER: &[u8] = b"ashlar peer frames of the dialer";

/// The reason why a handshake failed: a fragment for the operator after the peer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The bytes are those of another protocol.
    #[error("it is not a session of this program")]
    Stranger,
    /// The peer speaks another version of the protocol.
    #[error("its release has version {0} of the peer protocol, and this one has version {VERSION}")]
    Version(u8),
    /// The peer belongs to another volume.
    #[error("its session belongs to another volume")]
    Volume,
    /// The address belongs to another session, for example to a later one on the same machine.
    #[error("another session has this address")]
    Session,
    /// The session has dialled itself.
    #[error("this session has this address itself")]
    Itself,
    /// The peer does not know the key of the connection, or its messages were changed on their way.
    #[error("it does not know the secret: over the network that is the volume's master key")]
    Proof,
    /// The connection needs the key of the volume, and this session does not know it.
    #[error("this process does not have the master key of this volume")]
    NoKey,
    /// The listener has as many links as it accepts.
    #[error("it has too many links")]
    Full,
}

/// The keys of a connection's frames, for one side.
#[derive(Debug)]
pub struct FrameKeys {
    /// Makes the frames of this side.
    pub sealer: FrameSealer,
    /// Opens the frames of the other side.
    pub opener: FrameOpener,
}

/// The listener's answer to a hello.
#[derive(Debug)]
pub struct ListenerAnswer {
    /// The bytes for the dialer. They are sent in any case, so that the dialer can report the cause
    /// of a refusal.
    pub bytes: [u8; ANSWER_BYTES],
    /// The check of the dialer's proof, or the reason why the connection ends after the answer.
    pub dialer: Result<UnprovedDialer, HandshakeError>,
}

/// One session's sides of the handshakes of both kinds of connections.
#[derive(Debug)]
pub(crate) struct Provers {
    /// The side of the listener at the session's own socket file.
    local: Prover,
    network: Option<Prover>,
}

impl Provers {
    /// Returns the sides of the session `own`, whose socket file has this secret. Without a key it
    /// has none for TCP.
    pub(crate) fn new(
        volume: [u8; VOLUME_BYTES],
        socket_secret: &SocketSecret,
        network_key: Option<&PeeringKey>,
        own: Nonce,
    ) -> Provers {
        let network = network_key.map(|key| Prover::new(volume, key, own));
        Provers { local: Prover::local(volume, socket_secret, own), network }
    }

    /// Returns the name of this session.
    pub(crate) fn own(&self) -> Nonce {
        self.local.own()
    }

    /// Returns the listener's side at the socket file of this session, or over TCP.
    pub(crate) fn listener_side(&self, is_local: bool) -> Result<&Prover, HandshakeError> {
        if is_local { Ok(&self.local) } else { self.over_network() }
    }

    /// Returns the side for connections over TCP.
    pub(crate) fn over_network(&self) -> Result<&Prover, HandshakeError> {
        self.network.as_ref().ok_or(HandshakeError::NoKey)
    }

    /// Returns the dialer's side at the socket file with this secret.
    pub(crate) fn at_socket_file(&self, secret: &SocketSecret) -> Prover {
        Prover::local(self.local.volume, secret, self.own())
    }
}

/// One session's side of handshakes.
#[derive(Debug)]
pub struct Prover {
    volume: [u8; VOLUME_BYTES],
    own: Nonce,
    proof_key: hmac::Key,
    secret: PeeringKey,
}

impl Prover {
    /// Returns the side of the session `own` at the socket file with this secret.
    pub(crate) fn local(volume: [u8; VOLUME_BYTES], secret: &SocketSecret, own: Nonce) -> Prover {
        Prover::new(volume, &PeeringKey::of_socket_file(secret), own)
    }

    /// Returns the side of the session `own` of the volume with this id and key.
    pub fn new(volume: [u8; VOLUME_BYTES], key: &PeeringKey, own: Nonce) -> Prover {
        let root = hkdf::Salt::new(HKDF_SHA256, b"ashlar peer proofs").extract(&key.0);
        let proof_key = root.expand(&[b"key of the proofs"], HMAC_SHA256);
        let proof_key = hmac::Key::from(proof_key.expect("HKDF gives 32 bytes"));
        Prover { volume, own, proof_key, secret: key.clone() }
    }

    /// Returns the name of this session.
    pub fn own(&self) -> Nonce {
        self.own
    }

    /// Returns the dialer's first message to the session `to`.
    pub fn hello(&self, to: Nonce, challenge: [u8; CHALLENGE_BYTES]) -> [u8; HELLO_BYTES] {
        joined([&magic(), &self.volume, &self.own.0, &to.0, &challenge])
    }

    /// Returns the listener's answer to a hello. Fails with `Stranger` if the dialer should get
    /// none.
    pub fn answer(
        &self,
        hello: &[u8; HELLO_BYTES],
        challenge: [u8; CHALLENGE_BYTES],
    ) -> Result<ListenerAnswer, HandshakeError> {
        let (version, rest) = split_magic(hello)?;
        let claim: [u8; CLAIM_BYTES] = joined([&magic(), &self.volume, &self.own.0, &challenge]);
        let proof = self.proof(LISTENER_PROVES, hello, &claim);
        let bytes = joined([&claim, proof.as_ref()]);
        Ok(ListenerAnswer { bytes, dialer: self.unproved(version, rest, hello, &claim) })
    }

    fn unproved(
        &self,
        version: u8,
        mut rest: &[u8],
        hello: &[u8; HELLO_BYTES],
        claim: &[u8; CLAIM_BYTES],
    ) -> Result<UnprovedDialer, HandshakeError> {
        if version != VERSION {
            return Err(HandshakeError::Version(version));
        }
        if taken::<VOLUME_BYTES>(&mut rest)? != self.volume {
            return Err(HandshakeError::Volume);
        }
        let dialer = Nonce(taken(&mut rest)?);
        if Nonce(taken(&mut rest)?) != self.own {
            return Err(HandshakeError::Session);
        }
        if dialer == self.own {
            return Err(HandshakeError::Itself);
        }
        let proof = self.proof(DIALER_PROVES, hello, claim);
        let (theirs, ours) = self.keys(hello, claim);
        Ok(UnprovedDialer { dialer, proof, keys: FrameKeys::new(&ours, &theirs) })
    }

    /// Checks the first bytes of an answer, which show the protocol and its version.
    pub(crate) fn verify_magic(bytes: &[u8]) -> Result<(), HandshakeError> {
        match split_magic(bytes)? {
            (VERSION, _) => Ok(()),
            (version, _) => Err(HandshakeError::Version(version)),
        }
    }

    /// Verifies the listener's answer to this session's `hello`. Returns the dialer's proof, and
    /// the keys of the frames.
    pub fn verify(
        &self,
        hello: &[u8; HELLO_BYTES],
        answer: &[u8; ANSWER_BYTES],
    ) -> Result<([u8; PROOF_BYTES], FrameKeys), HandshakeError> {
        Prover::verify_magic(answer)?;
        let mut rest = &answer[MAGIC_BYTES..];
        if taken::<VOLUME_BYTES>(&mut rest)? != self.volume {
            return Err(HandshakeError::Volume);
        }
        let to = &hello[MAGIC_BYTES + VOLUME_BYTES + Nonce::BYTES..][..Nonce::BYTES];
        if taken::<{ Nonce::BYTES }>(&mut rest)? != to {
            return Err(HandshakeError::Session);
        }
        let claim = answer.first_chunk().expect("an answer begins with its claim");
        let proof = &answer[CLAIM_BYTES..];
        let expected = self.proof(LISTENER_PROVES, hello, claim);
        verify_slices_are_equal(expected.as_ref(), proof).map_err(|_| HandshakeError::Proof)?;
        let proof = self.proof(DIALER_PROVES, hello, claim);
        let (ours, theirs) = self.keys(hello, claim);
        Ok((joined([proof.as_ref()]), FrameKeys::new(&ours, &theirs)))
    }

    fn proof(
        &self,
        label: &[u8],
        hello: &[u8; HELLO_BYTES],
        claim: &[u8; CLAIM_BYTES],
    ) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.proof_key);
        for part in [label, hello, claim] {
            context.update(part);
        }
        context.sign()
    }

    /// Returns the keys of the frames of the dialer and of the listener.
    fn keys(
        &self,
        hello: &[u8; HELLO_BYTES],
        claim: &[u8; CLAIM_BYTES],
    ) -> ([u8; KEY_BYTES], [u8; KEY_BYTES]) {
        let challenges =
            [&hello[HELLO_BYTES - CHALLENGE_BYTES..], &claim[CLAIM_BYTES - CHALLENGE_BYTES..]]
                .concat();
        let root = hkdf::Salt::new(HKDF_SHA256, &challenges).extract(&self.secret.0);
        let key = |label| expanded(&root, &[label, hello, claim]);
        (key(FROM_DIALER), key(FROM_LISTENER))
    }
}

/// A dialer whose proof has not arrived.
#[derive(Debug)]
pub struct UnprovedDialer {
    dialer: Nonce,
    proof: hmac::Tag,
    keys: FrameKeys,
}

impl UnprovedDialer {
    /// Returns the name of the dialer as it claims. A wrong claim fails at the proof.
    pub fn claimed(&self) -> Nonce {
        self.dialer
    }

    /// Verifies the dialer's proof. Returns the name of its session, and the keys of the frames.
    pub fn verify(self, proof: &[u8; PROOF_BYTES]) -> Result<(Nonce, FrameKeys), HandshakeError> {
        verify_slices_are_equal(self.proof.as_ref(), proof).map_err(|_| HandshakeError::Proof)?;
        Ok((self.dialer, self.keys))
    }
}

impl FrameKeys {
    fn new(ours: &[u8; KEY_BYTES], theirs: &[u8; KEY_BYTES]) -> FrameKeys {
        let sealer = FrameSealer::new(frame_key(ours));
        FrameKeys { sealer, opener: FrameOpener::new(frame_key(theirs)) }
    }

    /// Returns the listener's verdict, its first frame.
    pub(crate) fn verdict(&mut self, has_room: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(VERDICT_BYTES);
        let verdict = if has_room { ACCEPTED } else { FULL };
        self.sealer.seal_with(&mut bytes, |to| to.push(verdict));
        bytes
    }

    /// Verifies the listener's verdict, its first frame.
    pub(crate) fn verify_verdict(
        &mut self,
        verdict: &mut [u8; VERDICT_BYTES],
    ) -> Result<(), HandshakeError> {
        match self.opener.open_bytes(verdict) {
            Ok([ACCEPTED]) => Ok(()),
            Ok([FULL]) => Err(HandshakeError::Full),
            Ok(_) | Err(_) => Err(HandshakeError::Proof),
        }
    }
}

fn expanded(root: &Prk, label: &[&[u8]]) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let bytes = root.expand(label, HKDF_SHA256).expect("HKDF gives 32 bytes");
    bytes.fill(&mut key).expect("SHA-256 has 32 bytes");
    key
}

fn magic() -> [u8; MAGIC_BYTES] {
    joined([MAGIC, &[VERSION]])
}

/// Splits the magic from a hello or an answer and returns the version and the rest.
fn split_magic(bytes: &[u8]) -> Result<(u8, &[u8]), HandshakeError> {
    match bytes.strip_prefix(MAGIC) {
        Some([version, rest @ ..]) => Ok((*version, rest)),
        Some([]) | None => Err(HandshakeError::Stranger),
    }
}

fn taken<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], HandshakeError> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or(HandshakeError::Stranger)?;
    *rest = after;
    Ok(*taken)
}

/// Joins parts whose lengths add up to `N`.
fn joined<const N: usize, const P: usize>(parts: [&[u8]; P]) -> [u8; N] {
    parts.concat().try_into().expect("the parts have this length")
}

#[cfg(test)]
mod tests;
