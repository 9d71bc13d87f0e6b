//! Object lock: what keeps a version of an object from being deleted or replaced.
//!
//! A retention keeps it until a time, a legal hold until somebody takes the hold away. Both are
//! those of one version, and a bucket may have a retention for all that is written to it. Here
//! they are read and written; what they forbid is decided where versions are.

use time::{Duration, OffsetDateTime};

use crate::fields::Fields;
use crate::xml::{Element, Writer, XmlLimits, malformed, parse_time};
use crate::{Code, Fault};

/// Who may end a retention before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Those who may bypass it, and say that they do.
    Governance,
    /// Nobody.
    Compliance,
}

impl LockMode {
    const ALL: [LockMode; 2] = [LockMode::Governance, LockMode::Compliance];

    /// The name of it on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            LockMode::Governance => "GOVERNANCE",
            LockMode::Compliance => "COMPLIANCE",
        }
    }

    /// The one with this name. Names are in upper case.
    pub fn named(name: &str) -> Option<LockMode> {
        LockMode::ALL.into_iter().find(|one| one.as_str() == name)
    }

    fn parse(element: &Element) -> Result<LockMode, Fault> {
        LockMode::named(element.required("Mode")?).ok_or_else(|| malformed("a Mode is not known"))
    }
}

/// What keeps a version until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Who may end it before.
    pub mode: LockMode,
    /// The time, in UTC and whole milliseconds, as documents show it.
    pub until: OffsetDateTime,
}

impl Retention {
    /// Reads the document of `PutObjectRetention`. An empty one takes the retention away.
    ///
    /// Faults: `MalformedXML`; `InvalidArgument` for a time that is not in the future;
    /// `NotImplemented` for retention that begins with an event.
    pub fn parse(body: &[u8], now: OffsetDateTime) -> Result<Option<Retention>, Fault> {
        let root = Element::parse(body, "Retention", XmlLimits::SMALL)?;
        refuse_event_based(&root, &["EventHold", "EventHoldDuration"])?;
        root.refuse_unknown(&["Mode", "RetainUntilDate"])?;
        if root.children().is_empty() {
            return Ok(None);
        }
        let mode = LockMode::parse(&root)?;
        let text = root.required("RetainUntilDate")?;
        let until = parse_time(text).ok_or_else(|| malformed("RetainUntilDate is no time"))?;
        let until = future_time(until, now).ok_or_else(|| not_future("RetainUntilDate", text))?;
        Ok(Some(Retention { mode, until }))
    }

    /// The document of `GetObjectRetention`.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("Retention", |out| {
            out.text("Mode", self.mode.as_str());
            out.time("RetainUntilDate", self.until);
        });
        out.finish()
    }
}

/// A time as retentions have it, if it is after `now`.
fn future_time(until: OffsetDateTime, now: OffsetDateTime) -> Option<OffsetDateTime> {
    Some(until.truncate_to_millisecond()).filter(|until| *until > now)
}

fn not_future(name: &'static str, text: &str) -> Fault {
    invalid(name, "The retain until date must be in the future!").with("ArgumentValue", text)
}

/// Refuses what S3 has had since 2026 and we do not serve: retention whose time begins to count
/// when an event has come. Who asks for it must not believe that it was granted.
fn refuse_event_based(element: &Element, names: &[&'static str]) -> Result<(), Fault> {
    for name in names {
        if element.child(name)?.is_some() {
            return Err(Fault::new(Code::NotImplemented).with("Element", *name));
        }
    }
    Ok(())
}

/// How long a bucket keeps what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetentionPeriod {
    /// Days: 1 to 36,500.
    Days(u32),
    /// Years of 365 days, as S3 counts them: 1 to 100.
    Years(u32),
}

impl RetentionPeriod {
    const DAYS_MAX: i32 = 36_500;
    const YEARS_MAX: i32 = 100;

    /// Its length in days.
    pub fn days(self) -> u32 {
        match self {
            RetentionPeriod::Days(days) => days,
            RetentionPeriod::Years(years) => years.saturating_mul(365),
        }
    }

    /// Its length.
    pub fn duration(self) -> Duration {
        match self {
            RetentionPeriod::Days(days) => Duration::days(days.into()),
            RetentionPeriod::Years(years) => Duration::days(i64::from(years) * 365),
        }
    }
}

/// The retention that a version gets if the request that writes it does not name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DefaultRetention {
    /// Who may end it before its time.
    pub mode: LockMode,
    /// How long it lasts.
    pub period: RetentionPeriod,
}

impl DefaultRetention {
    /// The retention of a version that is made now. It never ends after the year 9999.
    pub fn starting_at(self, now: OffsetDateTime) -> Retention {
        let until = now.saturating_add(self.period.duration()).truncate_to_millisecond();
        Retention { mode: self.mode, until }
    }

    fn parse(element: &Element) -> Result<DefaultRetention, Fault> {
        refuse_event_based(element, &["DefaultEventHold"])?;
        element.refuse_unknown(&["Mode", "Days", "Years"])?;
        let mode = LockMode::parse(element)?;
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
    let length: i32 = text.parse().map_err(|_| malformed("a period is not a number"))?;
    if length < 1 {
        return Err(invalid(name, "Default retention period must be a positive integer value."));
    }
    if length > max {
        return Err(invalid(name, "Default retention period too large."));
    }
    Ok(length.unsigned_abs())
}

/// The configuration of a bucket that has object lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectLockConfiguration {
    /// What new versions get, if anything.
    pub default: Option<DefaultRetention>,
}

impl ObjectLockConfiguration {
    /// Reads the document of `PutObjectLockConfiguration`. One without a rule ends the default.
    ///
    /// Faults: `MalformedXML`; `InvalidArgument` for a period that is too short or too long;
    /// `NotImplemented` for retention that begins with an event.
    pub fn parse(body: &[u8]) -> Result<ObjectLockConfiguration, Fault> {
        let root = Element::parse(body, "ObjectLockConfiguration", XmlLimits::SMALL)?;
        root.refuse_unknown(&["ObjectLockEnabled", "Rule"])?;
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

    /// The document of `GetObjectLockConfiguration`.
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

/// What keeps a version until it is taken away, whatever its retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LegalHold {
    /// The version is kept.
    On,
    /// It is not, or no longer.
    Off,
}

impl LegalHold {
    const ALL: [LegalHold; 2] = [LegalHold::On, LegalHold::Off];

    /// The hold that is on, or not.
    pub const fn from_bool(on: bool) -> LegalHold {
        if on { LegalHold::On } else { LegalHold::Off }
    }

    /// Whether the version is kept.
    pub const fn is_on(self) -> bool {
        matches!(self, LegalHold::On)
    }

    /// The name of it on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            LegalHold::On => "ON",
            LegalHold::Off => "OFF",
        }
    }

    /// The one with this name. Names are in upper case.
    pub fn named(name: &str) -> Option<LegalHold> {
        LegalHold::ALL.into_iter().find(|one| one.as_str() == name)
    }

    /// Reads the document of `PutObjectLegalHold`. Fault: `MalformedXML`.
    pub fn parse(body: &[u8]) -> Result<LegalHold, Fault> {
        let root = Element::parse(body, "LegalHold", XmlLimits::SMALL)?;
        root.refuse_unknown(&["Status"])?;
        let name = root.required("Status")?;
        LegalHold::named(name).ok_or_else(|| malformed("the Status is neither ON nor OFF"))
    }

    /// The document of `GetObjectLegalHold`.
    pub fn to_xml(self) -> String {
        let mut out = Writer::document();
        out.root("LegalHold", |out| out.text("Status", self.as_str()));
        out.finish()
    }
}

/// What the headers of a write ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectLockHeaders {
    /// A retention; without it, the bucket's default holds.
    pub retention: Option<Retention>,
    /// Whether the version is to be kept until it is let go; nothing if the request does not say.
    pub legal_hold: Option<bool>,
}

pub(crate) const MODE: &str = "x-amz-object-lock-mode";
pub(crate) const UNTIL: &str = "x-amz-object-lock-retain-until-date";
pub(crate) const HOLD: &str = "x-amz-object-lock-legal-hold";

impl ObjectLockHeaders {
    /// Reads the headers `x-amz-object-lock-…`. An empty one is none.
    ///
    /// Faults: `InvalidArgument`; `NotImplemented` for others than those of mode, time and hold.
    pub fn parse(fields: Fields<'_>, now: OffsetDateTime) -> Result<ObjectLockHeaders, Fault> {
        let known = [MODE, UNTIL, HOLD];
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

    /// Whether they ask for nothing.
    pub const fn is_empty(&self) -> bool {
        self.retention.is_none() && self.legal_hold.is_none()
    }
}

/// The retention that two headers ask for.
fn retention(
    mode: Option<&str>,
    until: Option<&str>,
    now: OffsetDateTime,
) -> Result<Option<Retention>, Fault> {
    let (mode, text) = match (mode, until) {
        (Some(mode), Some(until)) => (mode, until),
        (None, None) => return Ok(None),
        // S3 names the one that is missing.
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

/// Whether a request says that it goes past retentions in governance mode:
/// `x-amz-bypass-governance-retention`. Whether it may is another question.
///
/// Fault: `InvalidArgument` for what is neither true nor false.
pub fn bypasses_governance(fields: Fields<'_>) -> Result<bool, Fault> {
    parse_bool_header(fields, "x-amz-bypass-governance-retention")
}

/// Whether `CreateBucket` asks for a bucket with object lock: `x-amz-bucket-object-lock-enabled`.
///
/// Fault: `InvalidArgument` for what is neither true nor false.
pub fn requests_object_lock(fields: Fields<'_>) -> Result<bool, Fault> {
    parse_bool_header(fields, "x-amz-bucket-object-lock-enabled")
}

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
