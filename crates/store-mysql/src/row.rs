//! Reads the columns of a row.
//!
//! Answers are text. So a column is bytes for any type of the server, and a number is its digits.
//! For example, the counter 42 arrives as the bytes `42`.

use bytes::Bytes;
use sqlx::Row;
use sqlx::mysql::MySqlRow;
use store::{Key, Value};

pub(crate) fn integer(row: &MySqlRow, column: usize) -> Result<i64, sqlx::Error> {
    let digits = std::str::from_utf8(bytes(row, column)?).ok();
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| sqlx::Error::Decode("a number was expected".into()))
}

pub(crate) fn unsigned(row: &MySqlRow, column: usize) -> Result<u64, sqlx::Error> {
    let number = u64::try_from(integer(row, column)?);
    number.map_err(|_| sqlx::Error::Decode("a number below zero".into()))
}

pub(crate) fn bytes(row: &MySqlRow, column: usize) -> Result<&[u8], sqlx::Error> {
    row.try_get_unchecked(column)
}

pub(crate) fn value(row: &MySqlRow, column: usize) -> Result<Value, sqlx::Error> {
    bytes(row, column).map(Bytes::copy_from_slice)
}

pub(crate) fn value_if_any(row: &MySqlRow, column: usize) -> Result<Option<Value>, sqlx::Error> {
    let bytes: Option<&[u8]> = row.try_get_unchecked(column)?;
    Ok(bytes.map(Bytes::copy_from_slice))
}

pub(crate) fn key(row: &MySqlRow, column: usize) -> Result<Key, sqlx::Error> {
    let bytes = bytes(row, column)?;
    if bytes.len() < Key::PREFIX_BYTES {
        return Err(sqlx::Error::Decode("a key shorter than its space and partition".into()));
    }
    Ok(Key::from_bytes(Bytes::copy_from_slice(bytes)))
}
