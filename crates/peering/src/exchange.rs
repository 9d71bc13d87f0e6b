//! The messages of a handshake on a connection.
//!
//! Both sides read messages of fixed lengths only, into arrays. The callers set the deadline. For
//! example, an HTTP server that answers a hello with `HTTP/1.1 400` fails at the first eight bytes
//! of its answer.

use std::io;

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use record::Nonce;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::handshake::{
    ANSWER_BYTES, CHALLENGE_BYTES, FrameKeys, HELLO_BYTES, HandshakeError, MAGIC_BYTES,
    PROOF_BYTES, Prover, UnprovedDialer, VERDICT_BYTES,
};
use crate::transport::Connection;

/// The reason why a connection did not become a link: a fragment for the operator after the
/// address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    #[error(transparent)]
    Refused(#[from] HandshakeError),
    #[error("{}", in_words(.0))]
    Io(#[from] io::Error),
    #[error("it did not answer in time")]
    Deadline,
    /// The socket file belongs to another process than the one that the session's record means.
    #[error("a process of the user {found} listens there, and not one of the user {owner}")]
    Owner { found: u32, owner: u32 },
    #[error("the system gives no random bytes")]
    Random,
}

/// Returns an error without its number.
pub(crate) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it closed the connection during the handshake".to_owned(),
        // Errors of the resolver have a text of their own.
        kind if error.raw_os_error().is_some() => kind.to_string(),
        _ => error.to_string(),
    }
}

/// Returns fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ExchangeError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| ExchangeError::Random)?;
    Ok(bytes)
}

/// Performs the dialer's side of a handshake with the session `to`.
pub(crate) async fn dial(
    connection: &mut Connection,
    prover: &Prover,
    to: Nonce,
) -> Result<FrameKeys, ExchangeError> {
    let hello = prover.hello(to, random::<CHALLENGE_BYTES>()?);
    connection.writer.write_all(&hello).await?;
    let mut answer = [0; ANSWER_BYTES];
    let (magic, rest) = answer.split_at_mut(MAGIC_BYTES);
    connection.reader.read_exact(magic).await?;
    // Checked before the rest is awaited, because another protocol's answer may be shorter.
    Prover::verify_magic(magic)?;
    connection.reader.read_exact(rest).await?;
    let (proof, mut keys) = prover.verify(&hello, &answer)?;
    connection.writer.write_all(&proof).await?;
    let mut verdict = [0; VERDICT_BYTES];
    connection.reader.read_exact(&mut verdict).await?;
    keys.verify_verdict(&mut verdict)?;
    Ok(keys)
}

/// Performs the first half of the listener's side of a handshake: up to the listener's proof.
pub(crate) async fn answer(
    connection: &mut Connection,
    prover: &Prover,
) -> Result<UnprovedDialer, ExchangeError> {
    let mut hello = [0; HELLO_BYTES];
    connection.reader.read_exact(&mut hello).await?;
    let answer = prover.answer(&hello, random::<CHALLENGE_BYTES>()?)?;
    connection.writer.write_all(&answer.bytes).await?;
    Ok(answer.dialer?)
}

/// Performs the second half: verifies the dialer's proof. The verdict is the caller's.
pub(crate) async fn proved(
    connection: &mut Connection,
    dialer: UnprovedDialer,
) -> Result<(Nonce, FrameKeys), ExchangeError> {
    let mut proof = [0; PROOF_BYTES];
    connection.reader.read_exact(&mut proof).await?;
    Ok(dialer.verify(&proof)?)
}

/// Sends the listener's verdict.
pub(crate) async fn send_verdict(
    connection: &mut Connection,
    keys: &mut FrameKeys,
    has_room: bool,
) -> Result<(), ExchangeError> {
    let verdict = keys.verdict(has_room);
    Ok(connection.writer.write_all(&verdict).await?)
}
