//! Times in the format of signatures: `20130524T000000Z`.

use std::fmt::Write as _;

use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

/// The length of a timestamp in this format.
const TIMESTAMP_BYTES: usize = 16;

/// Returns a time, converted to UTC, in the format of signatures: `20130524T000000Z`. The first
/// eight characters are the date of a credential scope.
pub fn format_timestamp(at: OffsetDateTime) -> String {
    let at = at.to_offset(UtcOffset::UTC);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    let mut text = String::with_capacity(TIMESTAMP_BYTES);
    // Writing to a string does not fail.
    let _ = write!(text, "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z");
    text
}

/// Parses a time in the format of signatures, `20130524T000000Z`. Returns `None` if the text is not
/// exactly in this format.
pub fn parse_timestamp(text: &str) -> Option<OffsetDateTime> {
    let layout = format_description!("[year][month][day]T[hour][minute][second]Z");
    if text.len() != TIMESTAMP_BYTES {
        return None;
    }
    PrimitiveDateTime::parse(text, layout).ok().map(PrimitiveDateTime::assume_utc)
}
