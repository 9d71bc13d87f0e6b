use store::Key;

use super::{CHUNK_BYTES, HEAD_BYTES, LONG_BYTES, split};

#[test]
fn values_of_the_length_of_a_head_are_long_records() {
    for length in 0..=2 * LONG_BYTES {
        let value: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
        let (first, overflow) = split(&value);
        assert_eq!(first.len() == HEAD_BYTES, overflow.is_some(), "{length}");
        assert!(overflow.is_none() || length == HEAD_BYTES || length >= LONG_BYTES, "{length}");
        assert_eq!([first, overflow.unwrap_or_default()].concat(), value);
    }
}

#[test]
fn scripts_have_the_same_numbers() {
    let head = format!("local HEAD = {HEAD_BYTES}\n");
    let partition = format!("local PARTITION = {}\n", Key::PREFIX_BYTES);
    assert!(include_str!("../prelude.lua").contains(&head));
    assert!(include_str!("../commit.lua").contains(&head));
    assert!(include_str!("../prelude.lua").contains(&partition));
    // Without the space.
    let chunk = format!("sub(key, 1, {})", CHUNK_BYTES - 1);
    assert!(include_str!("../prelude.lua").contains(&chunk));
}
