//! Parses answers of the server. `None` is an answer of an unexpected form.
//!
//! For example, a long record arrives as an array of its head and its overflow value.

use bytes::Bytes;
use redis::Value;

/// Parses an answer that is a list; `None` for another form.
pub(crate) fn list(answer: Value) -> Option<Vec<Value>> {
    match answer {
        Value::Array(list) | Value::Set(list) => Some(list),
        _ => None,
    }
}

/// Parses an answer that is bytes or nil, which becomes `Some(None)`; `None` for another form.
#[expect(clippy::option_option, reason = "nil, and what is not bytes")]
pub(crate) fn bytes(answer: Value) -> Option<Option<Bytes>> {
    match answer {
        Value::BulkString(bytes) => Some(Some(bytes.into())),
        Value::SimpleString(text) => Some(Some(text.into())),
        Value::Nil => Some(None),
        _ => None,
    }
}

/// Parses an answer that is a record or nil, which becomes `Some(None)`. A long record is a list of
/// its head (first bytes) and its overflow value (the rest).
#[expect(clippy::option_option, reason = "nil, and what is no record")]
pub(crate) fn record(answer: Value) -> Option<Option<Bytes>> {
    let Value::Array(parts) = answer else { return bytes(answer) };
    let [head, overflow] = <[Value; 2]>::try_from(parts).ok()?;
    let (head, overflow) = (bytes(head)??, bytes(overflow)??);
    Some(Some([head, overflow].concat().into()))
}

/// Returns true if an answer is a long record without its overflow value.
pub(crate) fn is_damaged(answer: &Value) -> bool {
    matches!(answer, Value::Array(parts) if parts.get(1) == Some(&Value::Nil))
}

/// Parses an answer that is an index, from 0; `None` for another form.
pub(crate) fn index(answer: &Value) -> Option<usize> {
    match answer {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

/// Parses an answer that is a counter. Nil is 0, because the server keeps no counter that is 0.
pub(crate) fn counter(answer: Value) -> Option<i64> {
    match bytes(answer)? {
        None => Some(0),
        Some(bytes) => std::str::from_utf8(&bytes).ok()?.parse().ok(),
    }
}

/// Parses an answer that is text in UTF-8; `None` for another form.
pub(crate) fn text(answer: Value) -> Option<String> {
    String::from_utf8(bytes(answer)??.into()).ok()
}
