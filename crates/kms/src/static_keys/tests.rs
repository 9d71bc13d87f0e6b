use super::*;
use crate::tests::name;

fn kms(keys: &[(&str, u8)]) -> StaticKms {
    let keys = keys.iter().map(|(text, byte)| (name(text), PlainKey::new([*byte; 32])));
    StaticKms::new(keys).unwrap()
}

#[tokio::test]
async fn a_data_key_opens_under_the_name_and_key_that_wrapped_it() {
    let here = kms(&[("photos", 1), ("payroll", 1)]);
    let made = here.generate(&name("photos")).await.unwrap();
    let again = here.decrypt(&name("photos"), &made.wrapped).await.unwrap();
    assert_eq!(again.expose(), made.plain.expose());
    let other = here.generate(&name("photos")).await.unwrap();
    assert_ne!(other.plain.expose(), made.plain.expose(), "each data key is random");
    assert!(!made.wrapped.windows(32).any(|bytes| bytes == made.plain.expose()));
    // The same 32 bytes under another name, and another key under the same name.
    let error = here.decrypt(&name("payroll"), &made.wrapped).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Invalid);
    let error = kms(&[("photos", 2)]).decrypt(&name("photos"), &made.wrapped).await.unwrap_err();
    assert_eq!(error.kind, KmsErrorKind::Invalid);
    for at in 0..made.wrapped.len() {
        let mut changed = made.wrapped.clone();
        changed[at] ^= 1;
        let error = here.decrypt(&name("photos"), &changed).await.unwrap_err();
        assert_eq!(error.kind, KmsErrorKind::Invalid, "byte {at}");
    }
    for length in 0..made.wrapped.len() {
        let error = here.decrypt(&name("photos"), &made.wrapped[..length]).await.unwrap_err();
        assert_eq!(error.kind, KmsErrorKind::Invalid, "{length} bytes");
    }
}

#[tokio::test]
async fn a_name_without_a_key_is_not_found() {
    let here = kms(&[("photos", 1)]);
    here.describe(&name("photos")).await.unwrap();
    for error in [
        here.describe(&name("other")).await.unwrap_err(),
        here.generate(&name("other")).await.map(|_| ()).unwrap_err(),
        here.decrypt(&name("other"), b"").await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(error.kind, KmsErrorKind::NotFound);
        assert_eq!(error.to_string(), "KMS key other: no static key has this name");
    }
}

#[test]
fn a_pair_of_minio_is_accepted_and_never_printed() {
    let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let (of, plain) = StaticKms::parse_pair(&format!("my-key:{key}\n")).unwrap();
    assert_eq!((of, plain.expose()), (name("my-key"), &[1; 32]));
    assert_eq!(StaticKms::parse_key(&"01".repeat(32)).unwrap().expose(), &[1; 32]);
    for bad in ["my-key", "my-key:AAAA", ":AAAA", "a/b:AAAA", "my-key:secret-text"] {
        let error = StaticKms::parse_pair(bad).unwrap_err();
        assert!(!error.to_string().contains("secret-text"), "{error}");
    }
    let pair = || (name("a"), PlainKey::new([7; 32]));
    let error = StaticKms::new([pair(), pair()]).unwrap_err();
    assert_eq!(error.to_string(), "two static keys have the name a");
    let shown = format!("{:?} {:?}", StaticKms::new([pair()]).unwrap(), pair());
    assert!(!shown.contains('7') && shown.contains("PlainKey(…)"), "{shown}");
}
