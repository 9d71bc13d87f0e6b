use super::*;
use crate::message::MESSAGE_KEYS_MAX;

fn pair() -> (FrameSealer, FrameOpener) {
    let key = [7; KEY_BYTES];
    (FrameSealer::new(frame_key(&key)), FrameOpener::new(frame_key(&key)))
}

fn sealed(sealer: &mut FrameSealer, message: &Message) -> Vec<u8> {
    let mut frame = Vec::new();
    sealer.seal(message, &mut frame);
    frame
}

#[test]
fn frames_open_in_their_order() {
    let (mut sealer, mut opener) = pair();
    for number in 0..300 {
        let message = Message::Ask { number, outlives_link: false };
        let mut frame = sealed(&mut sealer, &message);
        assert_eq!(FrameOpener::frame_bytes(&frame), Ok(Some(frame.len())));
        assert_eq!(opener.open(&mut frame), Ok(message));
    }
    assert_eq!(sealed(&mut sealer, &Message::Bye).len(), HEADER_BYTES + 1 + TAG_BYTES);
}

#[test]
fn a_frame_with_any_changed_bit_does_not_open() {
    let length = sealed(&mut pair().0, &Message::Ask { number: 300, outlives_link: true }).len();
    for bit in 0..8 * length {
        let (mut sealer, mut opener) = pair();
        let mut frame = sealed(&mut sealer, &Message::Ask { number: 300, outlives_link: true });
        frame[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(opener.open(&mut frame), Err(FrameError::Forged), "bit {bit}");
    }
}

#[test]
fn a_repeated_missing_or_moved_frame_does_not_open() {
    let (mut sealer, mut opener) = pair();
    let first = sealed(&mut sealer, &Message::Ask { number: 1, outlives_link: false });
    let second = sealed(&mut sealer, &Message::Ask { number: 2, outlives_link: false });
    assert_eq!(opener.open(&mut second.clone()), Err(FrameError::Forged), "the first is missing");

    let (_, mut opener) = pair();
    assert!(opener.open(&mut first.clone()).is_ok());
    assert_eq!(opener.open(&mut first.clone()), Err(FrameError::Forged), "it was opened before");
}

#[test]
fn impossible_lengths_are_refused_before_the_frame_arrives() {
    let length = |length: u32| FrameOpener::frame_bytes(&length.to_be_bytes());
    let least = u32::try_from(TAG_BYTES).unwrap() + 1;
    let most = u32::try_from(FRAME_BYTES_MAX).unwrap();
    for wrong in [0, least - 1, most + 1, u32::MAX] {
        assert_eq!(length(wrong), Err(FrameError::Length(wrong)));
    }
    assert_eq!(length(least), Ok(Some(HEADER_BYTES + TAG_BYTES + 1)));
    assert_eq!(length(most), Ok(Some(HEADER_BYTES + FRAME_BYTES_MAX)));
    assert_eq!(FrameOpener::frame_bytes(&[0, 0, 0]), Ok(None));
}

#[test]
fn an_authentic_frame_without_a_message_is_an_error() {
    let (mut sealer, mut opener) = pair();
    let mut frame = Vec::new();
    sealer.seal_with(&mut frame, |to| to.push(0x77));
    assert_eq!(opener.open(&mut frame), Err(MessageError::Kind(0x77).into()));
    assert_eq!(opener.open(&mut []), Err(FrameError::Forged));
}

#[test]
fn the_largest_message_has_a_frame() {
    let (mut sealer, mut opener) = pair();
    let key = store::Key::new(store::Space(b'd'), 7, b"name");
    let message = Message::Notice { batch: 1, keys: vec![key; MESSAGE_KEYS_MAX].into() };
    let mut frame = sealed(&mut sealer, &message);
    assert!(frame.len() < 200_000, "keys share prefixes");
    assert_eq!(opener.open(&mut frame), Ok(message));
}
