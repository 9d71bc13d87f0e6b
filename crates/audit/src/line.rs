//! The two formats of lines: JSON, and the server access log of S3.
//!
//! The second is that of the page "Amazon S3 server access log format" of AWS: 27 fields between
//! blanks. Tools that read logs of S3, such as Athena's table definition and goaccess, read it too.
//! For example, a user agent with a quote and a line break cannot add a field or a line, because
//! both bytes appear percent-encoded.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::entry::AuditEntry;

/// The format of lines of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineFormat {
    /// A JSON object with named fields.
    #[default]
    Json,
    /// The server access log of S3.
    S3,
}

/// The time in the server access log, without its brackets.
const S3_TIME: &[BorrowedFormatItem<'_>] =
    format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");

/// The usual length of a line.
const LINE_BYTES: usize = 512;

impl LineFormat {
    /// Returns the line of an entry, without the line break at its end. It contains no other line
    /// break.
    pub fn line(self, entry: &AuditEntry) -> String {
        let mut line = String::with_capacity(LINE_BYTES);
        self.append(entry, &mut line);
        line
    }

    /// Appends the line of an entry to `lines`, without a line break.
    pub(crate) fn append(self, entry: &AuditEntry, lines: &mut String) {
        match self {
            LineFormat::Json => {
                // JSON escapes control characters, so a field cannot end the line. Only a type
                // without a JSON form could fail, and the entry has none.
                lines.push_str(&serde_json::to_string(entry).unwrap_or_default());
            }
            // Writing to a string does not fail.
            LineFormat::S3 => drop(s3(entry, lines)),
        }
    }
}

/// Appends the line of the server access log of S3.
fn s3(entry: &AuditEntry, line: &mut String) -> fmt::Result {
    let fixed = |text: Option<&'static str>| Field::plain(text);
    let requester = entry
        .requester
        .as_ref()
        .map(|requester| requester.arn.as_deref().unwrap_or(&requester.access_key));
    // A time that the format cannot express, and a zero, are "unknown" in this format.
    let time = entry.time.to_offset(time::UtcOffset::UTC).format(S3_TIME).unwrap_or_default();
    write!(
        line,
        "{} {} [{time}] ",
        Field::plain(entry.bucket_owner.as_deref()),
        Field::plain(entry.bucket.as_deref())
    )?;
    write!(line, "{} {} ", Remote(entry.remote), Field::plain(requester))?;
    write!(line, "{} ", Field::plain(Some(&entry.request_id)))?;
    write!(line, "{} {} ", Operation(entry), Field::plain(entry.key.as_deref()))?;
    let request = format!("{} {} {}", entry.method, entry.target, entry.protocol);
    write!(line, "\"{}\" ", Field::quoted(Some(&request)))?;
    write!(line, "{} {} ", entry.status, Field::plain(entry.code.as_deref()))?;
    write!(line, "{} ", Number(Some(entry.bytes_out).filter(|bytes| *bytes > 0)))?;
    write!(line, "{} ", Number(entry.object_size))?;
    write!(line, "{} {} ", entry.total.as_millis(), entry.turn_around.as_millis())?;
    write!(line, "\"{}\" ", Field::quoted(entry.referer.as_deref()))?;
    write!(line, "\"{}\" ", Field::quoted(entry.user_agent.as_deref()))?;
    // The host id of this server's responses is the request id.
    write!(
        line,
        "{} {} ",
        Field::plain(entry.version_id.as_deref()),
        Field::plain(Some(&entry.request_id))
    )?;
    write!(line, "{} {} ", fixed(entry.signature), fixed(entry.cipher))?;
    write!(line, "{} {} ", fixed(entry.authentication), Field::plain(entry.host.as_deref()))?;
    match entry.tls {
        Some(version) => write!(line, "TLSv{version} ")?,
        None => line.push_str("- "),
    }
    // There are no access points, and the ACL's part in a decision is not recorded.
    write!(line, "- - {}", Field::plain(Some(&entry.region)))
}

/// A field of a text, in which each byte that could end the field or the line is percent-encoded.
#[derive(Clone, Copy, Debug)]
struct Field<'a> {
    text: &'a str,
    /// True inside quotes, where blanks stay.
    quoted: bool,
}

impl<'a> Field<'a> {
    /// Returns a field that ends at a blank. An empty or unknown one is `-`.
    fn plain(text: Option<&'a str>) -> Field<'a> {
        let text = text.filter(|text| !text.is_empty()).unwrap_or("-");
        Field { text, quoted: false }
    }

    /// Returns a field in quotes.
    fn quoted(text: Option<&'a str>) -> Field<'a> {
        Field { quoted: true, ..Field::plain(text) }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.text.bytes() {
            let stays = match byte {
                b'"' | b'\\' => false,
                // A key with brackets cannot look like the field of the time.
                b' ' | b'[' | b']' => self.quoted,
                byte => byte.is_ascii_graphic(),
            };
            if stays {
                f.write_char(char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// A number, or `-` if it is unknown.
struct Number(Option<u64>);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// An address, or `-` if it is unknown.
struct Remote(Option<IpAddr>);

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// The operation in the form `REST.METHOD.RESOURCE`, for example `REST.PUT.OBJECT`.
struct Operation<'a>(&'a AuditEntry);

impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AuditEntry { operation, action, resource, method, .. } = self.0;
        match (*operation, *resource) {
            ("DeleteObjects", _) => f.write_str("REST.POST.MULTI_OBJECT_DELETE"),
            ("DeleteObject", "BATCH") => f.write_str("BATCH.DELETE.OBJECT"),
            ("CopyObject", _) => f.write_str("REST.COPY.OBJECT"),
            ("UploadPartCopy", _) => f.write_str("REST.COPY.PART"),
            ("", "") => f.write_str("-"),
            // The words of S3 have no operation of administration.
            (operation, "") => {
                Field::plain(Some(operation)).fmt(f)?;
                let Some(action) = action else { return Ok(()) };
                write!(f, ".{}", Field::plain(Some(action)))
            }
            (_, resource) => write!(f, "REST.{}.{resource}", Field::plain(Some(method))),
        }
    }
}

#[cfg(test)]
mod tests;
