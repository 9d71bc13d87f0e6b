use super::{MasterKey, SealError, Secret};

fn master(byte: u8) -> MasterKey {
    MasterKey::new([byte; MasterKey::BYTES])
}

#[test]
fn a_sealed_secret_opens_for_its_access_key_alone() {
    let secret = Secret::new("correct horse");
    let sealed = master(7).seal("anna", &secret, [9; MasterKey::NONCE_BYTES]);
    assert_eq!(master(7).open("anna", &sealed), Ok(secret));
    assert_eq!(master(7).open("bert", &sealed), Err(SealError::Foreign));
    assert_eq!(master(8).open("anna", &sealed), Err(SealError::Foreign));
}

#[test]
fn every_flipped_byte_of_a_sealed_secret_is_noticed() {
    let sealed = master(7).seal("anna", &Secret::new("s3cret"), [9; MasterKey::NONCE_BYTES]);
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 0x40;
        assert!(master(7).open("anna", &changed).is_err(), "byte {at}");
        assert!(master(7).open("anna", &sealed[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn the_bytes_of_a_sealed_secret_stay_as_they_are() {
    let sealed = master(7).seal("anna", &Secret::new("s3cret"), [9; MasterKey::NONCE_BYTES]);
    let golden = include_str!("golden/sealed_secret.hex");
    assert_eq!(hex::encode(sealed), golden.trim());
}

#[test]
fn a_sealed_secret_of_a_newer_format_says_so() {
    assert_eq!(master(7).open("anna", &[2; 40]), Err(SealError::Format(2)));
}

#[test]
fn a_master_key_is_read_from_hexadecimal_and_base64() {
    let key = master(0xab);
    assert_eq!(MasterKey::parse(&format!("{}\n", key.expose())), Ok(key.clone()));
    let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [0xab; 32]);
    assert_eq!(MasterKey::parse(&base64), Ok(key));
    for bad in ["", "short", &"ab".repeat(31), &"ab".repeat(33), &"zz".repeat(32)] {
        assert_eq!(MasterKey::parse(bad), Err(SealError::MasterKey), "{bad:?}");
    }
}

#[test]
fn secrets_are_never_printed() {
    let printed = format!("{:?} {:?}", Secret::new("s3cret"), master(0xab));
    assert!(!printed.contains("s3cret") && !printed.contains("abab"), "{printed}");
}
