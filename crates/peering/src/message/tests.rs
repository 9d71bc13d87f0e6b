use proptest::collection::vec;
use proptest::prelude::*;
use store::Space;

use super::*;

fn key(partition: u64, suffix: &[u8]) -> Key {
    Key::new(Space(b'd'), partition, suffix)
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// One message of each kind with its bytes. Sessions of different processes exchange them, so they
/// change only together with the version in the handshake.
#[test]
fn each_kind_has_its_golden_bytes() {
    let keys: Arc<[Key]> = [key(7, b"dir1/a"), key(7, b"dir1/b"), key(0x1_00, b"")].into();
    let golden: [(Message, &[u8]); 6] = [
        (Message::Ask { number: 300, outlives_link: true }, b"\x01\xac\x02\x01"),
        (Message::Grant { number: 5, fresh: true }, b"\x02\x05\x01"),
        (
            Message::Notice { batch: 1, keys: Arc::clone(&keys) },
            b"\x03\x01\x03\
              \x00\x0fd\0\0\0\0\0\0\0\x07dir1/a\
              \x0e\x01b\
              \x07\x02\x01\0",
        ),
        (Message::Ack { batch: u64::MAX }, b"\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (Message::Done { batch: 0 }, b"\x05\x00"),
        (Message::Bye, b"\x06"),
    ];
    for (message, bytes) in golden {
        assert_eq!(encoded(&message), bytes, "{message:?}");
        assert_eq!(Message::decode(bytes), Ok(message));
    }
}

fn messages() -> impl Strategy<Value = Message> {
    let number = prop_oneof![any::<u64>(), 0..300_u64];
    // Few partitions and letters, so that prefixes are shared, and some longer than 255 bytes.
    let suffix = prop_oneof![vec(b'a'..b'c', 0..12), vec(b'a'..b'b', 250..400)];
    let one = (0..3_u64, suffix).prop_map(|(partition, suffix)| key(partition, &suffix));
    let keys = vec(one, 0..40).prop_map(Arc::<[Key]>::from);
    (0..6, number, any::<bool>(), keys).prop_map(|(kind, number, fresh, keys)| match kind {
        0 => Message::Ask { number, outlives_link: fresh },
        1 => Message::Grant { number, fresh },
        2 => Message::Notice { batch: number, keys },
        3 => Message::Ack { batch: number },
        4 => Message::Done { batch: number },
        _ => Message::Bye,
    })
}

proptest! {
    #[test]
    fn a_decoded_message_equals_the_encoded_one(message in messages()) {
        prop_assert_eq!(Message::decode(&encoded(&message)), Ok(message));
    }

    #[test]
    fn a_message_that_ends_early_or_late_is_refused(message in messages(), more: u8) {
        let mut bytes = encoded(&message);
        for end in 0..bytes.len() {
            prop_assert!(Message::decode(&bytes[..end]).is_err());
        }
        bytes.push(more);
        prop_assert!(Message::decode(&bytes).is_err());
    }
}

#[test]
fn the_largest_message_fits_and_a_larger_one_does_not() {
    let length = MESSAGE_KEY_BYTES_MAX / MESSAGE_KEYS_MAX;
    let largest = |number: u64| {
        // The numbers come first, so that no key shares bytes with the one before.
        let mut suffix = vec![0xff; length - Key::PREFIX_BYTES];
        suffix[..8].copy_from_slice(&number.to_be_bytes());
        Key::new(Space(u8::try_from(number % 2).unwrap()), number, &suffix)
    };
    let mut keys: Vec<Key> = (0..MESSAGE_KEYS_MAX as u64).map(largest).collect();
    let message = Message::Notice { batch: u64::MAX, keys: keys.clone().into() };
    assert!(message.fits());
    let bytes = encoded(&message);
    assert!(bytes.len() > MESSAGE_KEY_BYTES_MAX, "no prefix is shared");
    assert!(bytes.len() <= MESSAGE_BYTES_MAX);
    assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));

    // One byte more in one key, and one key more.
    let longer = [keys[0].as_bytes(), b"x"].concat();
    let first = std::mem::replace(&mut keys[0], Key::from_bytes(longer));
    let message = Message::Notice { batch: 1, keys: keys.clone().into() };
    assert!(!message.fits());
    assert_eq!(Message::decode(&encoded(&message)), Err(MessageError::Field("key")));
    keys[0] = first;
    let few: Arc<[Key]> = (0..=MESSAGE_KEYS_MAX as u64).map(|it| key(it, b"")).collect();
    let message = Message::Notice { batch: 1, keys: few };
    assert!(!message.fits());
    assert_eq!(Message::decode(&encoded(&message)), Err(MessageError::Field("keys")));
}

#[test]
fn damaged_messages_are_refused() {
    let notice = |tail: &[u8]| [b"\x03\x01", tail].concat();
    let cases: [(Vec<u8>, MessageError); 9] = [
        (vec![], MessageError::Field("kind")),
        (vec![0], MessageError::Kind(0)),
        (vec![7], MessageError::Kind(7)),
        (b"\x02\x05\x02".to_vec(), MessageError::Field("fresh")),
        (b"\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02".to_vec(), MessageError::Field("batch")),
        // More keys than bytes.
        (notice(b"\x80\x80\x04"), MessageError::Field("keys")),
        // The first key shares a prefix, a key is short, a key is longer than the message.
        (notice(b"\x01\x01\x09d\0\0\0\0\0\0\0\x07"), MessageError::Field("key")),
        (notice(b"\x01\x00\x08d\0\0\0\0\0\0\0"), MessageError::Field("key")),
        (notice(b"\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01d"), MessageError::Field("key")),
    ];
    for (bytes, error) in cases {
        assert_eq!(Message::decode(&bytes), Err(error), "{bytes:x?}");
    }
}

/// Two bytes of a message can repeat 255 bytes of the key before, so the sum is limited.
#[test]
fn repeated_prefixes_do_not_exceed_the_limit_of_bytes() {
    let mut bytes = b"\x03\x01".to_vec();
    put_varint(&mut bytes, MESSAGE_KEYS_MAX as u64);
    bytes.extend_from_slice(&[0, 0xff, 1]);
    bytes.extend_from_slice(&[b'a'; 255]);
    for _ in 1..MESSAGE_KEYS_MAX {
        bytes.extend_from_slice(&[255, 0]);
    }
    assert!(bytes.len() < 200_000);
    assert_eq!(Message::decode(&bytes), Err(MessageError::Field("key")));
}

#[test]
fn keys_of_one_message_share_one_allocation() {
    let keys: Arc<[Key]> = [key(7, b"a"), key(7, b"b")].into();
    let Ok(Message::Notice { keys, .. }) =
        Message::decode(&encoded(&Message::Notice { batch: 1, keys }))
    else {
        panic!("a notice");
    };
    let start = keys[0].as_bytes().as_ptr_range().end;
    assert_eq!(start, keys[1].as_bytes().as_ptr());
}
