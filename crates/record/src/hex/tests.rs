use std::fmt;

use super::{STEP_BYTES, write_hex};

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, self.0)
    }
}

#[test]
fn each_byte_has_the_two_digits_of_the_formatter() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for length in [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, all.len()] {
        let bytes = &all[all.len() - length..];
        let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(Hex(bytes).to_string(), pairs.concat(), "{length} bytes");
    }
}
