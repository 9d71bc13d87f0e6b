//! Servers that behave as a KMS does, with faults.

mod faults;
pub(crate) mod stub;

use crate::{KmsEndpoint, KmsKeyName};

pub(crate) fn name(text: &str) -> KmsKeyName {
    text.parse().unwrap()
}

pub(crate) fn plain_endpoint(url: &str) -> KmsEndpoint {
    KmsEndpoint { url: url.to_owned(), authorities: None, identity: None }
}

#[test]
fn names_of_keys_are_one_segment_of_a_path() {
    for good in ["a", "a.b", "key-1_x", "A9", "-", &"x".repeat(128)] {
        assert_eq!(name(good).to_string(), good);
    }
    assert_eq!(name("arn:aws:kms:photos"), name("photos"));
    for bad in ["", ".", "..", ".a", "a/b", "a b", "a%2f", "ä", "a?b", "a\n", &"x".repeat(129)] {
        assert!(bad.parse::<KmsKeyName>().is_err(), "{bad:?}");
    }
}
