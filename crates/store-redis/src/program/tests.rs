use store::Key;

use super::{CHUNK_BYTES, HEAD_BYTES, LONG_BYTES, parts};

#[test]
fn a_value_of_a_heads_length_is_a_head_and_no_other() {
    for length in 0..=2 * LONG_BYTES {
        let value: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
        let (first, rest) = parts(&value);
        assert_eq!(first.len() == HEAD_BYTES, rest.is_some(), "{length}");
        assert!(rest.is_none() || length == HEAD_BYTES || length >= LONG_BYTES, "{length}");
        assert_eq!([first, rest.unwrap_or_default()].concat(), value);
    }
}

#[test]
fn scripts_have_the_same_numbers() {
    let head = format!("local HEAD = {HEAD_BYTES}\n");
    let partition = format!("local PARTITION = {}\n", Key::PREFIX_BYTES);
    assert!(include_str!("../prelude.lua").contains(&head));
    assert!(include_str!("../joined.lua").contains(&head));
    assert!(include_str!("../prelude.lua").contains(&partition));
    // Behind the space.
    let chunk = format!("sub(name, 1, {})", CHUNK_BYTES - 1);
    assert!(include_str!("../prelude.lua").contains(&chunk));
}
