use proptest::prelude::*;

use super::*;

const CUSTOMER: [u8; KEY_BYTES] = [7; KEY_BYTES];

fn key() -> ObjectEncryptionKey {
    ObjectEncryptionKey::new(&Zeroizing::new(std::array::from_fn(|index| {
        u8::try_from(index).unwrap()
    })))
}

fn encrypted(cipher: &PositionCipher, position: u64, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    cipher.apply(position, &mut bytes);
    bytes
}

#[test]
fn a_seal_opens_with_its_key_only() {
    let seal = key().seal(&CUSTOMER, [1; 16]);
    let opened = ObjectEncryptionKey::open(&seal, &CUSTOMER).unwrap();
    assert_eq!(opened.bytes, key().bytes);
    let mut other = CUSTOMER;
    other[31] ^= 1;
    assert_eq!(ObjectEncryptionKey::open(&seal, &other).err(), Some(NotAuthentic));
}

#[test]
fn a_changed_seal_does_not_open() {
    let seal = key().seal(&CUSTOMER, [1; 16]);
    let salted = CustomerSeal { salt: [2; 16], ..seal };
    assert!(ObjectEncryptionKey::open(&salted, &CUSTOMER).is_err());
    for index in 0..seal.wrapped.len() {
        let mut changed = seal;
        changed.wrapped[index] ^= 0x10;
        assert!(ObjectEncryptionKey::open(&changed, &CUSTOMER).is_err(), "byte {index} of the key");
    }
    for index in 0..seal.check.len() {
        let mut changed = seal;
        changed.check[index] ^= 0x10;
        assert!(
            ObjectEncryptionKey::open(&changed, &CUSTOMER).is_err(),
            "byte {index} of the check"
        );
    }
}

#[test]
fn each_block_has_another_key_stream() {
    let zeros = [0; 64];
    let streams = [
        encrypted(&key().of_block(BlockId([1; 16])), 0, &zeros),
        encrypted(&key().of_block(BlockId([2; 16])), 0, &zeros),
        encrypted(&key().of_inline(), 0, &zeros),
        encrypted(
            &ObjectEncryptionKey::new(&Zeroizing::new([9; KEY_BYTES])).of_inline(),
            0,
            &zeros,
        ),
    ];
    for (index, stream) in streams.iter().enumerate() {
        assert!(streams[index + 1..].iter().all(|other| other != stream), "stream {index}");
    }
}

#[test]
fn a_block_has_these_bytes() {
    // Computed by hkdf and AES-256-CTR of Python's `cryptography`.
    let bytes = encrypted(&key().of_block(BlockId(*b"0123456789abcdef")), 0, b"marker of a client");
    assert_eq!(hex::encode(bytes), "0d8105d6129b921fc1c904ab3b92a0ad5f06");
}

#[test]
fn no_text_shows_a_key_of_an_object() {
    assert_eq!(
        format!("{:?} {:?}", key(), key().of_inline()),
        "ObjectEncryptionKey(…) PositionCipher(…)"
    );
}

proptest! {
    #[test]
    fn each_piece_of_a_block_decrypts_alone(
        content in prop::collection::vec(any::<u8>(), 1..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        base in 0_u64..1_000,
    ) {
        let cipher = key().of_block(BlockId([3; 16]));
        let sealed = encrypted(&cipher, base, &content);
        prop_assert!(content.len() < 16 || sealed != content);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(content.len())).collect();
        cuts.extend([0, content.len()]);
        cuts.sort_unstable();
        let mut opened = Vec::new();
        for pair in cuts.windows(2) {
            opened.extend(encrypted(&cipher, base + pair[0] as u64, &sealed[pair[0]..pair[1]]));
        }
        prop_assert_eq!(opened, content);
    }
}
