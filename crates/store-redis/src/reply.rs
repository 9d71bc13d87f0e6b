//! What the server answered, taken apart. Whatever has another shape is `None`.

use bytes::Bytes;
use redis::Value;

/// A list.
pub(crate) fn list(answer: Value) -> Option<Vec<Value>> {
    match answer {
        Value::Array(list) | Value::Set(list) => Some(list),
        _ => None,
    }
}

/// Bytes, or that there are none.
#[expect(clippy::option_option, reason = "what is not there, and what is not bytes")]
pub(crate) fn bytes(answer: Value) -> Option<Option<Bytes>> {
    match answer {
        Value::BulkString(bytes) => Some(Some(bytes.into())),
        Value::SimpleString(text) => Some(Some(text.into())),
        Value::Nil => Some(None),
        _ => None,
    }
}

/// A record, or that there is none. A long one comes in two parts.
#[expect(clippy::option_option, reason = "what is not there, and what is no record")]
pub(crate) fn record(answer: Value) -> Option<Option<Bytes>> {
    let Value::Array(parts) = answer else { return bytes(answer) };
    let [head, rest] = <[Value; 2]>::try_from(parts).ok()?;
    let (head, rest) = (bytes(head)??, bytes(rest)??);
    Some(Some([head, rest].concat().into()))
}

/// A number that counts from 0.
pub(crate) fn index(answer: &Value) -> Option<usize> {
    match answer {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

/// A tally as the server keeps it; 0 if it does not.
pub(crate) fn tally(answer: Value) -> Option<i64> {
    match bytes(answer)? {
        None => Some(0),
        Some(bytes) => std::str::from_utf8(&bytes).ok()?.parse().ok(),
    }
}

/// Text.
pub(crate) fn text(answer: Value) -> Option<String> {
    String::from_utf8(bytes(answer)??.into()).ok()
}
