//! The configuration by which the access log of a bucket is delivered into another bucket, and the
//! keys of the delivered objects.
//!
//! For example, with the target prefix `logs/` and no key format, an object of the log has the key
//! `logs/2026-03-01-12-00-00-` and 16 hexadecimal digits.
//!
//! Invariant: each key that a configuration makes is a valid object key, because the parser checks
//! the longest one. This module does not know if the target bucket exists, and who may write to it.

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::name::{BucketName, ObjectKey};
use crate::operation::Stub;
use crate::xml::{Element, Writer, XmlLimits, is_writable, malformed};
use crate::{Code, Fault};

/// The time in the key of a delivered object.
const KEY_TIME: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]-[hour]-[minute]-[second]");

/// The folders of a day in a partitioned key.
const KEY_DAY: &[BorrowedFormatItem<'_>] = format_description!("[year]/[month]/[day]");

/// The length of the longest name of a bucket, in bytes.
const NAME_BYTES: usize = 63;

/// The answer to `GetBucketLogging` of a bucket whose log is not delivered.
pub const NO_LOGGING: Stub = Stub::Document("BucketLoggingStatus", "");

/// The names under which the source bucket appears in a partitioned key.
#[derive(Clone, Copy, Debug)]
pub struct LogSource<'a> {
    /// The number of the account that owns the bucket: 12 digits.
    pub account: &'a str,
    /// The region of the gateway.
    pub region: &'a str,
    /// The bucket.
    pub bucket: &'a str,
}

/// The date that a partitioned key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionDate {
    /// The day of the requests. The lines of an object are of one day, and the time of day in the
    /// key is midnight.
    Event,
    /// The time of the delivery.
    Delivery,
}

/// The form of the keys of delivered objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKeyFormat {
    /// `[prefix]YYYY-MM-DD-hh-mm-ss-[unique]`.
    Simple,
    /// `[prefix][account]/[region]/[bucket]/YYYY/MM/DD/YYYY-MM-DD-hh-mm-ss-[unique]`.
    Partitioned(PartitionDate),
}

/// The destination of the access log of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingEnabled {
    /// The bucket that gets the log.
    pub target: BucketName,
    /// The begin of the keys of the log. It can be empty.
    pub prefix: String,
    /// The form of the keys; `None` if the document has none, which means `LogKeyFormat::Simple`.
    pub key_format: Option<LogKeyFormat>,
}

impl LoggingEnabled {
    /// Parses the document of `PutBucketLogging`. Returns `None` if it disables the log.
    ///
    /// Fails with `MalformedXML`; `InvalidTargetBucketForLogging` if the target cannot be the name
    /// of a bucket; `InvalidArgument` or `KeyTooLongError` for a prefix that no key can have;
    /// `NotImplemented` for grants to readers of the log.
    pub fn parse(body: &[u8]) -> Result<Option<LoggingEnabled>, Fault> {
        let root = Element::parse(body, "BucketLoggingStatus", XmlLimits::SMALL)?;
        root.refuse_unknown(&["LoggingEnabled"])?;
        let Some(enabled) = root.child("LoggingEnabled")? else { return Ok(None) };
        let known = ["TargetBucket", "TargetPrefix", "TargetGrants", "TargetObjectKeyFormat"];
        enabled.refuse_unknown(&known)?;
        let target = enabled.required("TargetBucket")?;
        let target = BucketName::parse(target)
            .map_err(|_| invalid_target(target, "The target bucket for logging does not exist"))?;
        // White space belongs to the prefix.
        let prefix = enabled.child("TargetPrefix")?.map(Element::text);
        let prefix = prefix.ok_or_else(|| malformed("TargetPrefix is missing"))?.to_owned();
        if !prefix.chars().all(is_writable) {
            return Err(malformed("TargetPrefix contains a character that XML does not allow"));
        }
        if enabled.child("TargetGrants")?.is_some_and(|grants| !grants.children().is_empty()) {
            let why = "TargetGrants are not supported. A policy of the target bucket decides who \
                       may read the log.";
            return Err(Fault::because(Code::NotImplemented, why).with("Element", "TargetGrants"));
        }
        let key_format = enabled.child("TargetObjectKeyFormat")?.map(LogKeyFormat::parse);
        let key_format = key_format.transpose()?;
        let enabled = LoggingEnabled { target, prefix, key_format };
        enabled.check_keys()?;
        Ok(Some(enabled))
    }

    /// Fails if a key could be invalid, whatever the source bucket and the time are.
    fn check_keys(&self) -> Result<(), Fault> {
        let longest = "x".repeat(NAME_BYTES);
        let source = LogSource { account: "000000000000", region: &longest, bucket: &longest };
        ObjectKey::parse(&self.key(&source, OffsetDateTime::UNIX_EPOCH, 0)).map(drop)
    }

    /// Returns the document of `GetBucketLogging`.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("BucketLoggingStatus", |out| {
            out.element("LoggingEnabled", |out| {
                out.text("TargetBucket", self.target.as_str());
                out.text("TargetPrefix", &self.prefix);
                if let Some(format) = self.key_format {
                    out.element("TargetObjectKeyFormat", |out| format.write(out));
                }
            });
        });
        out.finish()
    }

    /// Returns the form of the keys.
    pub fn key_format(&self) -> LogKeyFormat {
        self.key_format.unwrap_or(LogKeyFormat::Simple)
    }

    /// Returns true if the lines of an object must be of one day.
    pub fn is_by_day(&self) -> bool {
        self.key_format() == LogKeyFormat::Partitioned(PartitionDate::Event)
    }

    /// Returns the key of an object of the log. `time` is the time of the delivery, or any time of
    /// the day of the lines if [`LoggingEnabled::is_by_day`]. `unique` makes two keys of one second
    /// different.
    pub fn key(&self, source: &LogSource<'_>, time: OffsetDateTime, unique: u64) -> String {
        let time = time.to_offset(time::UtcOffset::UTC);
        let time = if self.is_by_day() { time.replace_time(time::Time::MIDNIGHT) } else { time };
        // Both formats have only fields that each time has.
        let text = |format| time.format(format).unwrap_or_default();
        let name = format!("{}-{unique:016X}", text(KEY_TIME));
        let prefix = &self.prefix;
        match self.key_format() {
            LogKeyFormat::Simple => format!("{prefix}{name}"),
            LogKeyFormat::Partitioned(_) => {
                let LogSource { account, region, bucket } = source;
                format!("{prefix}{account}/{region}/{bucket}/{}/{name}", text(KEY_DAY))
            }
        }
    }
}

impl LogKeyFormat {
    fn parse(element: &Element) -> Result<LogKeyFormat, Fault> {
        element.refuse_unknown(&["SimplePrefix", "PartitionedPrefix"])?;
        let simple = element.child("SimplePrefix")?;
        match (simple, element.child("PartitionedPrefix")?) {
            (Some(simple), None) => {
                simple.refuse_unknown(&[])?;
                Ok(LogKeyFormat::Simple)
            }
            (None, Some(partitioned)) => {
                partitioned.refuse_unknown(&["PartitionDateSource"])?;
                match partitioned.value("PartitionDateSource")? {
                    None | Some("DeliveryTime") => {
                        Ok(LogKeyFormat::Partitioned(PartitionDate::Delivery))
                    }
                    Some("EventTime") => Ok(LogKeyFormat::Partitioned(PartitionDate::Event)),
                    Some(_) => Err(malformed("PartitionDateSource is unknown")),
                }
            }
            (Some(_), Some(_)) | (None, None) => {
                Err(malformed("TargetObjectKeyFormat needs SimplePrefix or PartitionedPrefix"))
            }
        }
    }

    fn write(self, out: &mut Writer) {
        let partitioned = |out: &mut Writer, date| {
            out.element("PartitionedPrefix", |out| out.text("PartitionDateSource", date));
        };
        match self {
            LogKeyFormat::Simple => out.element("SimplePrefix", |_| {}),
            LogKeyFormat::Partitioned(PartitionDate::Event) => partitioned(out, "EventTime"),
            LogKeyFormat::Partitioned(PartitionDate::Delivery) => partitioned(out, "DeliveryTime"),
        }
    }
}

/// Returns the fault of a target bucket that cannot get the log.
pub fn invalid_target(target: &str, why: &'static str) -> Fault {
    // A name from the network can be arbitrarily long.
    let shown: String = target.chars().take(100).collect();
    Fault::because(Code::InvalidTargetBucketForLogging, why).with("TargetBucket", shown)
}

#[cfg(test)]
mod tests;
