//! Values, and the content that each of them is written as.
//!
//! No two contents have the same length, so that a length says which value it is of. Some stand in a
//! record and some in blocks.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::content::{bytes, etag};
use crate::history::Value;
use crate::history::register::EMPTY;

/// Contents are shorter than this, and there are no more values: a prime.
pub(super) const VALUES: u64 = 65_521;

/// Bytes of the shortest content.
const LEAST: u64 = 64;

/// Between it and [`VALUES`], so that neighbours differ much.
const STEP: u64 = 7_919;

fn length(value: Value) -> u64 {
    assert!(0 < value && value < VALUES, "{value} is no value");
    LEAST + value * STEP % VALUES
}

/// The content of a value.
pub(super) fn content(value: Value) -> Vec<u8> {
    if value == EMPTY {
        return Vec::new();
    }
    let head = format!("{value} ").into_bytes();
    let length = usize::try_from(length(value)).expect("a short content");
    let rest = bytes(value, length - head.len());
    [head, rest].concat()
}

/// The value of a content of this length.
#[track_caller]
pub(super) fn of_length(found: u64) -> Value {
    static LENGTHS: OnceLock<HashMap<u64, Value>> = OnceLock::new();
    let lengths = LENGTHS.get_or_init(|| (1..VALUES).map(|value| (length(value), value)).collect());
    if found == 0 {
        return EMPTY;
    }
    *lengths.get(&found).unwrap_or_else(|| panic!("a length that nobody wrote: {found}"))
}

/// The value of a content.
#[track_caller]
pub(super) fn of_content(found: &[u8], of: &str) -> Value {
    if found.is_empty() {
        return EMPTY;
    }
    let digits = found.split(|&byte| byte == b' ').next().unwrap_or_default();
    let value = String::from_utf8_lossy(digits).parse().ok();
    let value = value.filter(|value| (1..VALUES).contains(value));
    let Some(value) = value else { panic!("{of}: {} bytes that nobody wrote", found.len()) };
    let whole = content(value);
    let same = whole.iter().zip(found).take_while(|(one, other)| one == other).count();
    assert!(
        found == whole,
        "{of}: {} bytes, of which {same} are the first ones of value {value}, which has {}",
        found.len(),
        whole.len()
    );
    value
}

/// The `ETag` of a value.
pub(super) fn tag(value: Value) -> String {
    etag(&content(value))
}
