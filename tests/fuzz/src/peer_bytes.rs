//! Bytes that a stranger sends to the port of peer sessions, or as an answer to a session that
//! dials.
//!
//! Messages have one value for each form of their bytes, within their limits. Without the key of
//! the volume no handshake succeeds, and no frame opens.

use peering::frame::{FRAME_BYTES_MAX, FrameOpener, HEADER_BYTES};
use peering::handshake::{ANSWER_BYTES, CHALLENGE_BYTES, HELLO_BYTES, PROOF_BYTES, Prover};
use peering::{Message, PeeringKey};
use record::Nonce;

const DIALER: Nonce = Nonce([5; Nonce::BYTES]);
const LISTENER: Nonce = Nonce([3; Nonce::BYTES]);

/// The challenge of the side under test. Real ones are random, so that a fuzzer cannot know them.
const CHALLENGE: [u8; CHALLENGE_BYTES] = [0x5a; CHALLENGE_BYTES];

/// The input: a byte for the kind, then the bytes of a message, a hello, an answer, a proof, or
/// frames.
pub(crate) fn check(input: &[u8]) {
    let [kind, bytes @ ..] = input else { return };
    match kind % 5 {
        0 => message(bytes),
        1 => hello(&fixed(bytes)),
        2 => answer(&fixed(bytes)),
        3 => proof(&fixed(bytes)),
        _ => frames(bytes),
    }
}

/// Returns the first `N` bytes, with zeros if there are fewer. A side reads no other number.
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut fixed = [0; N];
    let length = bytes.len().min(N);
    fixed[..length].copy_from_slice(&bytes[..length]);
    fixed
}

fn prover(own: Nonce) -> Prover {
    Prover::new([1; 16], &PeeringKey::new([9; PeeringKey::BYTES]), own)
}

fn message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else { return };
    assert!(message.fits(), "a link would send what it receives");
    let mut again = Vec::new();
    message.encode(&mut again);
    assert!(again.len() <= bytes.len(), "the encoder shares all that it can");
    assert_eq!(Message::decode(&again), Ok(message));
}

fn hello(hello: &[u8; HELLO_BYTES]) {
    let listener = prover(LISTENER);
    let Ok(answer) = listener.answer(hello, CHALLENGE) else { return };
    assert_eq!(&answer.bytes[..7], b"ashlarP");
    let Ok(dialer) = answer.dialer else { return };
    assert_ne!(dialer.claimed(), LISTENER);
    let mut guess = [0; PROOF_BYTES];
    guess.copy_from_slice(&hello[HELLO_BYTES - PROOF_BYTES..]);
    assert!(dialer.verify(&guess).is_err());
}

fn answer(answer: &[u8; ANSWER_BYTES]) {
    let dialer = prover(DIALER);
    let hello = dialer.hello(LISTENER, CHALLENGE);
    assert!(dialer.verify(&hello, answer).is_err(), "the answer has no proof");
}

fn proof(proof: &[u8; PROOF_BYTES]) {
    let hello = prover(DIALER).hello(LISTENER, CHALLENGE);
    let answer = prover(LISTENER).answer(&hello, CHALLENGE).expect("an answer");
    assert!(answer.dialer.expect("a dialer").verify(proof).is_err());
}

fn frames(bytes: &[u8]) {
    let Ok(Some(length)) = FrameOpener::frame_bytes(bytes) else { return };
    assert!((HEADER_BYTES + 1..=HEADER_BYTES + FRAME_BYTES_MAX).contains(&length));
    let hello = prover(DIALER).hello(LISTENER, CHALLENGE);
    let answer = prover(LISTENER).answer(&hello, CHALLENGE).expect("an answer");
    let (_, mut keys) = prover(DIALER).verify(&hello, &answer.bytes).expect("a proof");
    let mut frame = bytes[..length.min(bytes.len())].to_vec();
    assert!(keys.opener.open(&mut frame).is_err(), "the frame has no tag");
}
