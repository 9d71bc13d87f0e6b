//! Object lock: it protects object versions from deletion and replacement.
//!
//! A retention protects a version until a time. A legal hold protects it until a user removes the
//! hold. Both belong to one version. A bucket can have a default retention for new versions. For
//! example, with a default of 30 days in compliance mode, no user can delete a version in its first
//! 30 days.
//!
//! The module parses and writes the documents and headers. The code that deletes versions enforces
//! the locks.

use time::OffsetDateTime;

use crate::fields::Fields;
use crate::xml::{Element, Writer, XmlLimits, malformed, parse_time};
use crate::{Code, Fault};

/// The mode of a retention, which protects an object version until a time. The mode determines the
/// users who may end the retention early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Users with the permission to bypass governance retention may end it early, if their request
    /// asks for it.
    Governance,
    /// No user may end the retention early.
    Compliance,
}

impl LockMode {
    const ALL: [LockMode; 2] = [LockMode::Governance, LockMode::Compliance];

    /// Returns the mode's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            LockMode::Governance => "GOVERNANCE",
            LockMode::Compliance => "COMPLIANCE",
        }
    }

    /// Returns the retention mode with this name, in upper case; `None` for any other text.
    pub fn named(name: &str) -> Option<LockMode> {
        LockMode::ALL.into_iter().find(|one| one.as_str() == name)
    }

    fn parse(element: &Element) -> Result<LockMode, Fault> {
        LockMode::named(element.required("Mode")?).ok_or_else(|| malformed("Mode is unknown"))
    }
}

/// The retention of an object version: it protects the version from deletion until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The mode of the retention.
    pub mode: LockMode,
    /// The time until which the version is protected, in UTC and whole milliseconds, as documents
    /// show it.
    pub until: OffsetDateTime,
}

impl Retention {
    /// Parses the document of `PutObjectRetention`. An empty document removes the retention and
    /// returns `None`.
    ///
    /// Fails with `MalformedXML`; `InvalidArgument` for a time that is not in the future;
    /// `NotImplemented` for retention that starts with an event.
    pub fn parse(body: &[u8], now: OffsetDateTime) -> Result<Option<Retention>, Fault> {
        let root = Element::parse(body, "Retention", XmlLimits::SMALL)?;
        // Events are refused before unknown elements, so that the fault is `NotImplemented` and not
        // `MalformedXML`.
        refuse_event_based(&root, &["EventHold", "EventHoldDuration"])?;
        root.refuse_unknown(&["Mode", "RetainUntilDate"])?;
        // S3 uses an empty document to remove a retention.
        if root.children().is_empty() {
            return Ok(None);
        }
        let mode = LockMode::parse(&root)?;
        let text = root.required("RetainUntilDate")?;
        let until =
            parse_time(text).ok_or_else(|| malformed("RetainUntilDate is not a valid time"))?;
        let until = future_time(until, now).ok_or_else(|| not_future("RetainUntilDate", text))?;
        Ok(Some(Retention { mode, until }))
    }

    /// Returns the document of `GetObjectRetention`.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("Retention", |out| {
            out.text("Mode", self.mode.as_str());
            out.time("RetainUntilDate", self.until);
        });
        out.finish()
    }
}

/// Returns the end of a retention in its stored precision, whole milliseconds. `None` if it is not
/// after `now`.
fn future_time(until: OffsetDateTime, now: OffsetDateTime) -> Option<OffsetDateTime> {
    Some(until.truncate_to_millisecond()).filter(|until| *until > now)
}

fn not_future(name: &'static str, text: &str) -> Fault {
    invalid(name, "The retain until date must be in the future!").with("ArgumentValue", text)
}

/// Refuses a feature that S3 added in 2026 and that is not implemented: retention whose period
/// starts with an event. A client that requests it must not believe that it was granted.
fn refuse_event_based(element: &Element, names: &[&'static str]) -> Result<(), Fault> {
    for name in names {
        if element.child(name)?.is_some() {
            return Err(Fault::new(Code::NotImplemented).with("Element", *name));
        }
    }
    Ok(())
}

/// The length of a default retention, that is, of the retention that a bucket gives to each new
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetentionPeriod {
    /// A number of days: 1 to 36,500.
    Days(u32),
    /// A number of years of 365 days, as in S3: 1 to 100.
    Years(u32),
}

impl RetentionPeriod {
    const DAYS_MAX: i32 = 36_500;
    const YEARS_MAX: i32 = 100;

    /// Returns the length of the retention in days.
    pub fn days(self) -> u32 {
        match self {
            RetentionPeriod::Days(days) => days,
            RetentionPeriod::Years(years) => years.saturating_mul(365),
        }
    }
}

/// The default retention of a bucket: the retention of a new version whose request sets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DefaultRetention {
    /// The mode of the retention.
    pub mode: LockMode,
    /// The length of the retention, from the creation of the version.
    pub period: RetentionPeriod,
}

impl DefaultRetention {
    fn parse(element: &Element) -> Result<DefaultRetention, Fault> {
        refuse_event_based(element, &["DefaultEventHold"])?;
        element.refuse_unknown(&["Mode", "Days", "Years"])?;
        let mode = LockMode::parse(element)?;
        // S3 accepts exactly one of both.
        let period = match (element.value("Days")?, element.value("Years")?) {
            (Some(days), None) => {
                RetentionPeriod::Days(length("Days", days, RetentionPeriod::DAYS_MAX)?)
            }
            (None, Some(years)) => {
                RetentionPeriod::Years(length("Years", years, RetentionPeriod::YEARS_MAX)?)
            }
            _ => return Err(malformed("a DefaultRetention needs either Days or Years")),
        };
        Ok(DefaultRetention { mode, period })
    }

    fn write(self, out: &mut Writer) {
        out.text("Mode", self.mode.as_str());
        match self.period {
            RetentionPeriod::Days(days) => out.number("Days", days.into()),
            RetentionPeriod::Years(years) => out.number("Years", years.into()),
        }
    }
}

fn length(name: &'static str, text: &str, max: i32) -> Result<u32, Fault> {
    // S3 distinguishes text, numbers below 1, and numbers that are too large.
    let length: i32 = text.parse().map_err(|_| malformed("a period is not a number"))?;
    if length < 1 {
        return Err(invalid(name, "Default retention period must be a positive integer value."));
    }
    if length > max {
        return Err(invalid(name, "Default retention period too large."));
    }
    Ok(length.unsigned_abs())
}

/// The configuration of a bucket with object lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectLockConfiguration {
    /// The default retention of new versions; `None` if a new version has no retention unless its
    /// request sets one.
    pub default: Option<DefaultRetention>,
}

impl ObjectLockConfiguration {
    /// Parses the document of `PutObjectLockConfiguration`. A document without a rule removes the
    /// default retention.
    ///
    /// Fails with `MalformedXML`; `InvalidArgument` for a period that is too short or too long;
    /// `NotImplemented` for retention that starts with an event.
    pub fn parse(body: &[u8]) -> Result<ObjectLockConfiguration, Fault> {
        let root = Element::parse(body, "ObjectLockConfiguration", XmlLimits::SMALL)?;
        root.refuse_unknown(&["ObjectLockEnabled", "Rule"])?;
        // Object lock cannot be disabled, so `Enabled` is the only valid value.
        if root.required("ObjectLockEnabled")? != "Enabled" {
            return Err(malformed("ObjectLockEnabled is not Enabled"));
        }
        let Some(rule) = root.child("Rule")? else { return Ok(ObjectLockConfiguration::default()) };
        rule.refuse_unknown(&["DefaultRetention"])?;
        let retention = rule
            .child("DefaultRetention")?
            .ok_or_else(|| malformed("DefaultRetention is missing in Rule"))?;
        Ok(ObjectLockConfiguration { default: Some(DefaultRetention::parse(retention)?) })
    }

    /// Returns the document of `GetObjectLockConfiguration`.
    pub fn to_xml(self) -> String {
        let mut out = Writer::document();
        out.root("ObjectLockConfiguration", |out| {
            out.text("ObjectLockEnabled", "Enabled");
            if let Some(retention) = self.default {
                out.element("Rule", |out| {
                    out.element("DefaultRetention", |out| retention.write(out));
                });
            }
        });
        out.finish()
    }
}

/// The legal hold of a version: it protects the version until it is removed, regardless of any
/// retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LegalHold {
    /// The version cannot be deleted until the hold is removed.
    On,
    /// The version has no legal hold. A retention may still protect it.
    Off,
}

impl LegalHold {
    const ALL: [LegalHold; 2] = [LegalHold::On, LegalHold::Off];

    /// Returns `On` for true, and `Off` for false.
    pub const fn from_bool(on: bool) -> LegalHold {
        if on { LegalHold::On } else { LegalHold::Off }
    }

    /// Returns true if the legal hold protects the version.
    pub const fn is_on(self) -> bool {
        matches!(self, LegalHold::On)
    }

    /// Returns `ON` or `OFF`, as requests and responses have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            LegalHold::On => "ON",
            LegalHold::Off => "OFF",
        }
    }

    /// Returns the legal hold with this name, `ON` or `OFF`; `None` for any other text.
    pub fn named(name: &str) -> Option<LegalHold> {
        LegalHold::ALL.into_iter().find(|one| one.as_str() == name)
    }

    /// Parses the document of `PutObjectLegalHold`. Fails with `MalformedXML`.
    pub fn parse(body: &[u8]) -> Result<LegalHold, Fault> {
        let root = Element::parse(body, "LegalHold", XmlLimits::SMALL)?;
        root.refuse_unknown(&["Status"])?;
        let name = root.required("Status")?;
        LegalHold::named(name).ok_or_else(|| malformed("the Status is neither ON nor OFF"))
    }

    /// Returns the document of `GetObjectLegalHold`.
    pub fn to_xml(self) -> String {
        let mut out = Writer::document();
        out.root("LegalHold", |out| out.text("Status", self.as_str()));
        out.finish()
    }
}

/// The object lock that a write requests in its headers for the new version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectLockHeaders {
    /// The retention of the new version; `None` selects the bucket's default.
    pub retention: Option<Retention>,
    /// True to set a legal hold, false for none; `None` if the request does not have the header.
    pub legal_hold: Option<bool>,
}

pub(crate) const MODE: &str = "x-amz-object-lock-mode";
pub(crate) const UNTIL: &str = "x-amz-object-lock-retain-until-date";
pub(crate) const HOLD: &str = "x-amz-object-lock-legal-hold";

impl ObjectLockHeaders {
    /// Parses the headers `x-amz-object-lock-…`. An empty header counts as absent.
    ///
    /// Fails with `InvalidArgument`, or with `NotImplemented` for other headers than those of mode,
    /// time and hold.
    pub fn parse(fields: Fields<'_>, now: OffsetDateTime) -> Result<ObjectLockHeaders, Fault> {
        let known = [MODE, UNTIL, HOLD];
        // An unknown lock header may request a protection that does not exist here, so it is
        // refused.
        let names = fields.names("x-amz-object-lock-");
        if let Some(name) = names.into_iter().find(|name| !known.contains(name)) {
            return Err(Fault::new(Code::NotImplemented).with("Header", name));
        }
        let get =
            |name| -> Result<_, Fault> { Ok(fields.get(name)?.filter(|value| !value.is_empty())) };
        let retention = retention(get(MODE)?, get(UNTIL)?, now)?;
        let legal_hold = get(HOLD)?.map(|name| {
            let hold = LegalHold::named(name).map(LegalHold::is_on);
            let why = "Legal Hold must be either of 'ON' or 'OFF'";
            hold.ok_or_else(|| invalid(HOLD, why).with("ArgumentValue", name))
        });
        Ok(ObjectLockHeaders { retention, legal_hold: legal_hold.transpose()? })
    }

    /// Returns true if the headers request neither a retention nor a legal hold.
    pub const fn is_empty(&self) -> bool {
        self.retention.is_none() && self.legal_hold.is_none()
    }
}

/// Parses the retention in the headers of mode and time. Both or none must be present.
fn retention(
    mode: Option<&str>,
    until: Option<&str>,
    now: OffsetDateTime,
) -> Result<Option<Retention>, Fault> {
    let (mode, text) = match (mode, until) {
        (Some(mode), Some(until)) => (mode, until),
        (None, None) => return Ok(None),
        // S3 names the missing header.
        (given, _) => {
            let missing = if given.is_none() { MODE } else { UNTIL };
            let why = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both \
                       be supplied";
            return Err(invalid(missing, why));
        }
    };
    let mode = LockMode::named(mode)
        .ok_or_else(|| invalid(MODE, "Unknown wormMode directive.").with("ArgumentValue", mode))?;
    let until = parse_time(text).ok_or_else(|| {
        invalid(UNTIL, "The retain until date must be provided in ISO 8601 format")
            .with("ArgumentValue", text)
    })?;
    let until = future_time(until, now).ok_or_else(|| not_future(UNTIL, text))?;
    Ok(Some(Retention { mode, until }))
}

/// Returns true if a request asks to bypass retention in governance mode:
/// `x-amz-bypass-governance-retention`. The permission is checked elsewhere.
///
/// Fails with `InvalidArgument` for a value that is neither true nor false.
pub fn bypasses_governance(fields: Fields<'_>) -> Result<bool, Fault> {
    parse_bool_header(fields, "x-amz-bypass-governance-retention")
}

/// Returns true if `CreateBucket` requests a bucket with object lock:
/// `x-amz-bucket-object-lock-enabled`.
///
/// Fails with `InvalidArgument` for a value that is neither true nor false.
pub fn requests_object_lock(fields: Fields<'_>) -> Result<bool, Fault> {
    parse_bool_header(fields, "x-amz-bucket-object-lock-enabled")
}

/// Parses a header that is true or false; false if it is absent or empty.
fn parse_bool_header(fields: Fields<'_>, name: &'static str) -> Result<bool, Fault> {
    match fields.get(name)? {
        None | Some("") => Ok(false),
        Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
        Some(value) => {
            Err(invalid(name, Code::InvalidArgument.message()).with("ArgumentValue", value))
        }
    }
}

fn invalid(name: &'static str, why: &'static str) -> Fault {
    Fault::because(Code::InvalidArgument, why).with("ArgumentName", name)
}

#[cfg(test)]
mod tests;
