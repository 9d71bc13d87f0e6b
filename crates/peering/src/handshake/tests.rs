use super::*;
use crate::Message;

const VOLUME: [u8; 16] = [1; 16];
const LISTENER: Nonce = Nonce([3; Nonce::BYTES]);
const DIALER: Nonce = Nonce([5; Nonce::BYTES]);
const FROM_ONE: [u8; CHALLENGE_BYTES] = [11; CHALLENGE_BYTES];
const FROM_OTHER: [u8; CHALLENGE_BYTES] = [12; CHALLENGE_BYTES];

fn prover(own: Nonce) -> Prover {
    Prover::new(VOLUME, &PeeringKey::new([9; 32]), own)
}

/// The side that refused a handshake, and its reason.
type Refusal = (&'static str, HandshakeError);

/// Performs a handshake whose messages `change` may change: 0 for the hello, 1 for the answer, 2
/// for the proof.
fn exchange(
    dialer: &Prover,
    listener: &Prover,
    change: impl Fn(usize, &mut [u8]),
) -> Result<((Nonce, FrameKeys), FrameKeys), Refusal> {
    let hello = dialer.hello(listener.own(), FROM_ONE);
    let mut arrived = hello;
    change(0, &mut arrived);
    let mut answer = listener.answer(&arrived, FROM_OTHER).map_err(|it| ("listener", it))?;
    change(1, &mut answer.bytes);
    let (mut proof, keys) = dialer.verify(&hello, &answer.bytes).map_err(|it| ("dialer", it))?;
    change(2, &mut proof);
    let proved = answer.dialer.and_then(|it| it.verify(&proof)).map_err(|it| ("listener", it))?;
    Ok((proved, keys))
}

#[test]
fn both_sides_of_a_handshake_get_keys_that_fit() {
    let (mut at_listener, mut at_dialer) =
        exchange(&prover(DIALER), &prover(LISTENER), |_, _| {}).unwrap();
    assert_eq!(at_listener.0, DIALER);
    let mut verdict: [u8; VERDICT_BYTES] = at_listener.1.verdict(true).try_into().unwrap();
    assert_eq!(at_dialer.verify_verdict(&mut verdict), Ok(()));
    for (from, to) in [
        (&mut at_listener.1.sealer, &mut at_dialer.opener),
        (&mut at_dialer.sealer, &mut at_listener.1.opener),
    ] {
        let mut frame = Vec::new();
        from.seal(&Message::Bye, &mut frame);
        assert_eq!(to.open(&mut frame), Ok(Message::Bye));
    }
}

#[test]
fn the_directions_have_different_keys() {
    let ((_, mut at_listener), _) =
        exchange(&prover(DIALER), &prover(LISTENER), |_, _| {}).unwrap();
    let mut frame = Vec::new();
    at_listener.sealer.seal(&Message::Bye, &mut frame);
    assert!(at_listener.opener.open(&mut frame).is_err(), "a reflected frame");
}

#[test]
fn any_changed_bit_of_the_handshake_ends_it() {
    for (message, length) in [(0, HELLO_BYTES), (1, ANSWER_BYTES), (2, PROOF_BYTES)] {
        for bit in 0..8 * length {
            let flip = |at: usize, bytes: &mut [u8]| {
                if at == message {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            };
            assert!(
                exchange(&prover(DIALER), &prover(LISTENER), flip).is_err(),
                "bit {bit} of message {message}"
            );
        }
    }
}

#[test]
fn a_wrong_key_fails_at_the_first_proof_of_either_side() {
    let stranger = Prover::new(VOLUME, &PeeringKey::new([8; 32]), DIALER);
    let failed = exchange(&stranger, &prover(LISTENER), |_, _| {});
    assert_eq!(failed.unwrap_err(), ("dialer", HandshakeError::Proof));
    // A dialer that does not verify the answer gets no further.
    let hello = stranger.hello(LISTENER, FROM_ONE);
    let answer = prover(LISTENER).answer(&hello, FROM_OTHER).unwrap();
    let stranger_proof = Prover::new(VOLUME, &PeeringKey::new([8; 32]), LISTENER)
        .answer(&hello, FROM_OTHER)
        .map(|theirs| stranger.verify(&hello, &theirs.bytes).unwrap().0)
        .unwrap();
    let refused = answer.dialer.unwrap().verify(&stranger_proof);
    assert_eq!(refused.unwrap_err(), HandshakeError::Proof);
}

#[test]
fn a_session_of_another_volume_is_refused() {
    let key = PeeringKey::new([9; 32]);
    let elsewhere = |own| Prover::new([2; 16], &key, own);
    let failed = exchange(&elsewhere(DIALER), &prover(LISTENER), |_, _| {});
    assert_eq!(failed.unwrap_err(), ("dialer", HandshakeError::Volume));
    let hello = elsewhere(DIALER).hello(LISTENER, FROM_ONE);
    let answer = prover(LISTENER).answer(&hello, FROM_OTHER).unwrap();
    assert_eq!(answer.dialer.unwrap_err(), HandshakeError::Volume);
}

#[test]
fn a_proof_for_another_volume_session_or_challenge_is_refused() {
    // The proofs of a complete handshake, as a stranger can record them.
    let hello = prover(DIALER).hello(LISTENER, FROM_ONE);
    let recorded = prover(LISTENER).answer(&hello, FROM_OTHER).unwrap().bytes;
    let (proof, _) = prover(DIALER).verify(&hello, &recorded).unwrap();

    let replayed = prover(LISTENER).answer(&hello, [13; CHALLENGE_BYTES]).unwrap();
    assert_eq!(replayed.dialer.unwrap().verify(&proof).unwrap_err(), HandshakeError::Proof);
    let again = prover(DIALER).hello(LISTENER, [14; CHALLENGE_BYTES]);
    assert_eq!(prover(DIALER).verify(&again, &recorded).unwrap_err(), HandshakeError::Proof);

    let elsewhere = Prover::new([2; 16], &PeeringKey::new([9; 32]), LISTENER);
    let mut moved = hello;
    moved[MAGIC_BYTES..][..VOLUME_BYTES].copy_from_slice(&[2; 16]);
    let answer = elsewhere.answer(&moved, FROM_OTHER).unwrap();
    assert_eq!(answer.dialer.unwrap().verify(&proof).unwrap_err(), HandshakeError::Proof);

    let third = prover(Nonce([4; Nonce::BYTES]));
    let answer = third.answer(&hello, FROM_OTHER).unwrap();
    assert_eq!(answer.dialer.unwrap_err(), HandshakeError::Session);
    let mut moved = hello;
    moved[HELLO_BYTES - CHALLENGE_BYTES - Nonce::BYTES..][..Nonce::BYTES]
        .copy_from_slice(&third.own().0);
    let answer = third.answer(&moved, FROM_OTHER).unwrap();
    assert_eq!(answer.dialer.unwrap().verify(&proof).unwrap_err(), HandshakeError::Proof);
}

#[test]
fn the_proof_of_the_other_side_is_refused() {
    let hello = prover(DIALER).hello(LISTENER, FROM_ONE);
    let answer = prover(LISTENER).answer(&hello, FROM_OTHER).unwrap();
    let reflected: [u8; PROOF_BYTES] = answer.bytes[CLAIM_BYTES..].try_into().unwrap();
    assert_eq!(answer.dialer.unwrap().verify(&reflected).unwrap_err(), HandshakeError::Proof);
}

#[test]
fn a_session_does_not_accept_itself() {
    let hello = prover(LISTENER).hello(LISTENER, FROM_ONE);
    let answer = prover(LISTENER).answer(&hello, FROM_OTHER).unwrap();
    assert_eq!(answer.dialer.unwrap_err(), HandshakeError::Itself);
}

#[test]
fn another_protocol_or_version_is_recognized() {
    let mut hello = prover(DIALER).hello(LISTENER, FROM_ONE);
    hello[MAGIC_BYTES - 1] = 9;
    let answer = prover(LISTENER).answer(&hello, FROM_OTHER).unwrap();
    assert_eq!(answer.dialer.unwrap_err(), HandshakeError::Version(9));
    let hello = prover(DIALER).hello(LISTENER, FROM_ONE);
    let mut newer = answer.bytes;
    newer[MAGIC_BYTES - 1] = 9;
    let failed = prover(DIALER).verify(&hello, &newer);
    assert_eq!(failed.unwrap_err(), HandshakeError::Version(9));

    let mut http = [b' '; HELLO_BYTES];
    http[..16].copy_from_slice(b"GET / HTTP/1.1\r\n");
    let refused = prover(LISTENER).answer(&http, FROM_OTHER);
    assert_eq!(refused.unwrap_err(), HandshakeError::Stranger);
}

/// A peer of another release must find these fields at these places to report the cause.
#[test]
fn the_first_messages_have_their_golden_bytes() {
    let hello = prover(DIALER).hello(LISTENER, FROM_ONE);
    let expected = [&b"ashlarP\x01"[..], &[1; 16], &[5; 10], &[3; 10], &[11; 32]].concat();
    assert_eq!(hello[..], expected);
    let answer = prover(LISTENER).answer(&hello, FROM_OTHER).unwrap().bytes;
    let expected = [&b"ashlarP\x01"[..], &[1; 16], &[3; 10], &[12; 32]].concat();
    assert_eq!(answer[..CLAIM_BYTES], expected);
}

#[test]
fn a_refusal_for_want_of_room_is_authentic() {
    let ((_, mut at_listener), mut at_dialer) =
        exchange(&prover(DIALER), &prover(LISTENER), |_, _| {}).unwrap();
    let mut verdict: [u8; VERDICT_BYTES] = at_listener.verdict(false).try_into().unwrap();
    assert_eq!(at_dialer.verify_verdict(&mut verdict), Err(HandshakeError::Full));
    assert_eq!(at_dialer.verify_verdict(&mut [0; VERDICT_BYTES]), Err(HandshakeError::Proof));
}

#[test]
fn the_key_is_not_shown() {
    let shown = format!("{:?}", prover(DIALER));
    assert!(!shown.contains("9, 9") && shown.contains("PeeringKey"), "{shown}");
}

#[test]
fn the_two_kinds_of_connections_have_different_keys() {
    let key = PeeringKey::new([9; 32]);
    let provers = |own, secret| Provers::new(VOLUME, &SocketSecret([secret; 16]), Some(&key), own);
    let (dialer, listener) = (provers(DIALER, 1), provers(LISTENER, 2));
    let at_file = dialer.at_socket_file(&SocketSecret([2; 16]));
    // The dialer's own secret, and the network's key, do not open the listener's socket file.
    let own = dialer.at_socket_file(&SocketSecret([1; 16]));
    let tcp = dialer.over_network().unwrap();
    for (dialer, is_local, fits) in [
        (&at_file, true, true),
        (&own, true, false),
        (tcp, true, false),
        (tcp, false, true),
        (&at_file, false, false),
    ] {
        let listener = listener.listener_side(is_local).unwrap();
        assert_eq!(exchange(dialer, listener, |_, _| {}).is_ok(), fits);
    }
    let keyless = Provers::new(VOLUME, &SocketSecret([1; 16]), None, DIALER);
    assert_eq!(keyless.over_network().unwrap_err(), HandshakeError::NoKey);
    assert_eq!(keyless.listener_side(false).unwrap_err(), HandshakeError::NoKey);
    let at_file = keyless.at_socket_file(&SocketSecret([2; 16]));
    assert!(exchange(&at_file, listener.listener_side(true).unwrap(), |_, _| {}).is_ok());
}
