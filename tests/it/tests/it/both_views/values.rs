//! Values and their contents.
//!
//! Each content has a different length, so a length identifies its value. Some contents are inline
//! in a record and some are in blocks.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::content::{bytes, etag};
use crate::history::Value;
use crate::history::register::EMPTY;

/// All contents are shorter than this plus [`LEAST`], and there are fewer values: a prime number.
pub(super) const VALUES: u64 = 65_521;

/// Length of the shortest content, in bytes.
const LEAST: u64 = 64;

/// A multiplier that gives neighbouring values very different lengths.
const STEP: u64 = 7_919;

fn length(value: Value) -> u64 {
    assert!(0 < value && value < VALUES, "{value} is no value");
    LEAST + value * STEP % VALUES
}

/// Returns the content of a value.
pub(super) fn content(value: Value) -> Vec<u8> {
    if value == EMPTY {
        return Vec::new();
    }
    let head = format!("{value} ").into_bytes();
    let length = usize::try_from(length(value)).expect("a short content");
    let rest = bytes(value, length - head.len());
    [head, rest].concat()
}

/// Returns the value of a content of this length.
#[track_caller]
pub(super) fn of_length(found: u64) -> Value {
    static LENGTHS: OnceLock<HashMap<u64, Value>> = OnceLock::new();
    let lengths = LENGTHS.get_or_init(|| (1..VALUES).map(|value| (length(value), value)).collect());
    if found == 0 {
        return EMPTY;
    }
    *lengths.get(&found).unwrap_or_else(|| panic!("a length that no client wrote: {found}"))
}

/// Returns the value of a content. Panics if no client wrote the content.
#[track_caller]
pub(super) fn of_content(found: &[u8], of: &str) -> Value {
    if found.is_empty() {
        return EMPTY;
    }
    let digits = found.split(|&byte| byte == b' ').next().unwrap_or_default();
    let value = String::from_utf8_lossy(digits).parse().ok();
    let value = value.filter(|value| (1..VALUES).contains(value));
    let Some(value) = value else { panic!("{of}: {} bytes that no client wrote", found.len()) };
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

/// Returns the `ETag` of a value.
pub(super) fn tag(value: Value) -> String {
    etag(&content(value))
}
