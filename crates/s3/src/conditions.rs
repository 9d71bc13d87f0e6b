//! Preconditions: the `If-…` headers of requests.
//!
//! The preconditions of a read are decided here. The precondition of a write is checked here first,
//! so that a failing request ends early, and decided by the commit, which sees the object that it
//! replaces. For example, of two concurrent PUTs with `If-None-Match: *` both can pass the early
//! check, and only one commits.
//!
//! The module does not know the object; the caller passes its ETag and time.

use std::borrow::Cow;
use std::fmt;

use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::fields::Fields;
use crate::xml::push_digits;
use crate::{Code, Fault};

/// The date format of HTTP, which responses use: `Sun, 06 Nov 1994 08:49:37 GMT`.
const HTTP_DATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
);
/// `Sun Nov  6 08:49:37 1994`, an obsolete format that a recipient must accept.
const ASCTIME_DATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
);

/// The value of `If-Match` or `If-None-Match`: a list of entity tags, or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ETagList {
    /// `*`, which matches any existing object.
    Any,
    /// The tags, without quotes and without the `W/` prefix.
    Tags(Vec<ListedTag>),
}

/// An entity tag as the client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTag {
    /// The tag without quotes.
    pub tag: String,
    /// True if the tag has the prefix `W/`.
    pub weak: bool,
}

/// The preconditions of a read, or those on the source of a copy or rename. A field is `None` if
/// the request does not have its header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPreconditions {
    /// `If-Match`: the read fails with 412 if the ETag of the object is not listed.
    pub if_match: Option<ETagList>,
    /// `If-None-Match`: the response is 304 if the ETag of the object is listed.
    pub if_none_match: Option<ETagList>,
    /// `If-Modified-Since`: the response is 304 if the object has not changed after this time.
    pub if_modified_since: Option<OffsetDateTime>,
    /// `If-Unmodified-Since`: the read fails with 412 if the object has changed after this time.
    pub if_unmodified_since: Option<OffsetDateTime>,
}

/// The result of the preconditions of a read for the object that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadVerdict {
    /// All preconditions hold, so the read continues.
    Proceed,
    /// The client already has this version of the object, so the response is 304 without a body.
    NotModified,
    /// The response is 412. The value is the name of the failed precondition.
    Failed(&'static str),
}

/// The precondition of a write on the object that it replaces or deletes, as the headers state it.
/// The commit of the write decides it, because the object can change before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WritePrecondition {
    /// The write is unconditional.
    #[default]
    None,
    /// `If-None-Match: *`: fails with 412 if the key has an object.
    IfNoneMatchStar,
    /// `If-Match`: fails with 412 if the object's ETag is not listed, and with 404 if there is no
    /// object.
    IfMatch(ETagList),
    /// `If-None-Match` with tags: fails with 412 if the object's ETag is listed. RFC 9110 defines
    /// it, S3 does not.
    IfNoneMatch(ETagList),
}

/// The preconditions of a deletion on the size and time of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatPrecondition {
    /// The size in bytes that the object must have: `x-amz-if-match-size`.
    pub size: Option<u64>,
    /// The last-modified time that the object must have, compared in whole seconds:
    /// `x-amz-if-match-last-modified-time`.
    pub modified: Option<OffsetDateTime>,
}

impl StatPrecondition {
    /// The names of the headers of the preconditions on size and time.
    pub(crate) const HEADERS: [&str; 2] =
        ["x-amz-if-match-size", "x-amz-if-match-last-modified-time"];

    /// Parses the headers of a `DeleteObject` request that compare the size and the time of the
    /// object. Fails with `InvalidArgument`.
    pub fn parse(fields: Fields<'_>) -> Result<StatPrecondition, Fault> {
        let [size, modified] = StatPrecondition::HEADERS;
        StatPrecondition::from_texts((size, fields.get(size)?), (modified, fields.get(modified)?))
    }

    /// Parses the size and the time, each given with its name for error messages. `None` is an
    /// absent precondition. A malformed value is refused and never ignored, because otherwise the
    /// object could be deleted against the client's intent.
    pub(crate) fn from_texts(
        size: (&'static str, Option<&str>),
        modified: (&'static str, Option<&str>),
    ) -> Result<StatPrecondition, Fault> {
        let invalid = |name: &'static str, text: &str| {
            Fault::new(Code::InvalidArgument).with("ArgumentName", name).with("ArgumentValue", text)
        };
        let number = |text: &str| {
            // `u64::from_str` also accepts a plus sign.
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits).ok_or_else(|| invalid(size.0, text))
        };
        let date = |text: &str| {
            let date = parse_http_date(text);
            date.or_else(|| OffsetDateTime::parse(text.trim(), &Rfc3339).ok())
                .ok_or_else(|| invalid(modified.0, text))
        };
        Ok(StatPrecondition {
            size: size.1.map(number).transpose()?,
            modified: modified.1.map(date).transpose()?,
        })
    }

    /// Returns true if at least one precondition is set.
    pub fn is_some(self) -> bool {
        self.size.is_some() || self.modified.is_some()
    }

    /// Returns the name of the precondition in S3's error documents; `None` if none is set.
    pub fn name(self) -> Option<&'static str> {
        match self {
            StatPrecondition { modified: Some(_), .. } => Some("If-Match-Last-Mod-Time"),
            StatPrecondition { size: Some(_), .. } => Some("If-Match-Size"),
            StatPrecondition { .. } => None,
        }
    }
}

impl ETagList {
    /// Parses the value of a header as a list of entity tags or `*`. Quotes may be missing, because
    /// some clients omit them.
    pub fn parse(header: &str) -> ETagList {
        let mut tags = Vec::new();
        let mut rest = header.trim();
        if rest == "*" {
            return ETagList::Any;
        }
        while !rest.is_empty() {
            let (weak, unmarked) = match rest.strip_prefix("W/") {
                Some(unmarked) => (true, unmarked),
                None => (false, rest),
            };
            // A quoted tag may contain a comma, and quotes inside it cannot be escaped.
            let (tag, after) = match unmarked.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => unmarked.split_once(',').unwrap_or((unmarked, "")),
            };
            // Empty list elements are allowed by RFC 9110 and have no meaning.
            if !tag.trim().is_empty() {
                tags.push(ListedTag { tag: tag.trim().to_owned(), weak });
            }
            rest = after.trim_start_matches([',', ' ', '\t']);
        }
        ETagList::Tags(tags)
    }

    /// Returns true if the list contains `etag` or is `*`, by strong comparison: a weak tag, with
    /// the prefix `W/`, matches nothing. `etag` has no quotes.
    pub fn matches(&self, etag: &str) -> bool {
        match self {
            ETagList::Any => true,
            ETagList::Tags(tags) => tags.iter().any(|listed| !listed.weak && listed.tag == etag),
        }
    }

    /// Returns true if the list contains `etag` or is `*`, by weak comparison, which ignores the
    /// prefix `W/`. `If-None-Match` requires it.
    pub fn matches_weakly(&self, etag: &str) -> bool {
        match self {
            ETagList::Any => true,
            ETagList::Tags(tags) => tags.iter().any(|listed| listed.tag == etag),
        }
    }
}

/// Formats the list as in a header: `*`, or quoted tags separated by commas.
impl fmt::Display for ETagList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags = match self {
            ETagList::Any => return f.write_str("*"),
            ETagList::Tags(tags) => tags,
        };
        for (place, ListedTag { tag, weak }) in tags.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let mark = if *weak { "W/" } else { "" };
            write!(f, "{comma}{mark}\"{tag}\"")?;
        }
        Ok(())
    }
}

impl ReadPreconditions {
    /// Parses the preconditions of GET and HEAD. A malformed date is ignored.
    pub fn parse(fields: Fields<'_>) -> Result<ReadPreconditions, Fault> {
        ReadPreconditions::with_prefix(fields, "")
    }

    /// Parses the preconditions on the source of a copy, `x-amz-copy-source-if-…`. Fails as
    /// [`ReadPreconditions::parse_for_target`].
    pub fn parse_for_source(fields: Fields<'_>) -> Result<ReadPreconditions, Fault> {
        ReadPreconditions::for_change(fields, "x-amz-copy-source-")
    }

    /// Parses the preconditions on the source of a rename, `x-amz-rename-source-if-…`. Fails as
    /// [`ReadPreconditions::parse_for_target`].
    pub fn parse_for_rename(fields: Fields<'_>) -> Result<ReadPreconditions, Fault> {
        ReadPreconditions::for_change(fields, "x-amz-rename-source-")
    }

    /// Parses the preconditions of a rename on the object that it replaces.
    ///
    /// Fails with `NotImplemented` for an `If-None-Match` that is neither `*` nor a list of entity
    /// tags, such as `"*"` in quotes, and for a date that is empty or malformed. An empty
    /// `If-Match` matches no object.
    pub fn parse_for_target(fields: Fields<'_>) -> Result<ReadPreconditions, Fault> {
        ReadPreconditions::for_change(fields, "")
    }

    /// Parses the preconditions of a request that changes the object or creates another one from
    /// it. A precondition that cannot be understood is refused, because the request would otherwise
    /// be unconditional. An empty `If-None-Match` counts as absent, as in S3.
    fn for_change(fields: Fields<'_>, prefix: &str) -> Result<ReadPreconditions, Fault> {
        let mut conditions = ReadPreconditions::with_prefix(fields, prefix)?;
        let is_sent = |name: &str| fields.is_sent(&format!("{prefix}{name}"));
        let refused = |name: &str| {
            Err(Fault::new(Code::NotImplemented).with("Header", format!("{prefix}{name}")))
        };
        if conditions.if_match.is_none() && is_sent("if-match") {
            conditions.if_match = Some(ETagList::Tags(Vec::new()));
        }
        if let Some(ETagList::Tags(tags)) = &conditions.if_none_match
            && !are_valid_tags(tags)
        {
            return refused("if-none-match");
        }
        if conditions.if_modified_since.is_none() && is_sent("if-modified-since") {
            return refused("if-modified-since");
        }
        if conditions.if_unmodified_since.is_none() && is_sent("if-unmodified-since") {
            return refused("if-unmodified-since");
        }
        Ok(conditions)
    }

    fn with_prefix(fields: Fields<'_>, prefix: &str) -> Result<ReadPreconditions, Fault> {
        let prefixed = |name: &'static str| -> Cow<'static, str> {
            if prefix.is_empty() { name.into() } else { format!("{prefix}{name}").into() }
        };
        let tags = |name| -> Result<_, Fault> {
            Ok(fields.joined(&prefixed(name))?.map(|text| ETagList::parse(&text)))
        };
        let date = |name| -> Result<_, Fault> {
            Ok(fields.get(&prefixed(name))?.and_then(parse_http_date))
        };
        Ok(ReadPreconditions {
            if_match: tags("if-match")?,
            if_none_match: tags("if-none-match")?,
            if_modified_since: date("if-modified-since")?,
            if_unmodified_since: date("if-unmodified-since")?,
        })
    }

    /// Decides the preconditions for an object with this ETag and time, in the order of RFC 9110:
    /// `If-Match` overrides `If-Unmodified-Since`, and `If-None-Match` overrides
    /// `If-Modified-Since`.
    ///
    /// `etag` has no quotes. Times are compared in whole seconds, as headers have them.
    pub fn decide(&self, etag: &str, last_modified: OffsetDateTime) -> ReadVerdict {
        let modified = last_modified.unix_timestamp();
        // `If-Match` and `If-Unmodified-Since` are decided first, as RFC 9110 requires: a failure
        // takes precedence over "not modified".
        match (&self.if_match, self.if_unmodified_since) {
            (Some(list), _) if !list.matches(etag) => return ReadVerdict::Failed("If-Match"),
            (None, Some(since)) if modified > since.unix_timestamp() => {
                return ReadVerdict::Failed("If-Unmodified-Since");
            }
            _ => {}
        }
        match (&self.if_none_match, self.if_modified_since) {
            (Some(list), _) if list.matches_weakly(etag) => ReadVerdict::NotModified,
            (None, Some(since)) if modified <= since.unix_timestamp() => ReadVerdict::NotModified,
            _ => ReadVerdict::Proceed,
        }
    }

    /// Decides the preconditions on the source of a copy or rename, or on the object that a rename
    /// replaces. "Not modified" is also a failure here, because such a request has no response 304.
    ///
    /// Fails with `PreconditionFailed` and the name of the precondition.
    pub fn check(
        &self,
        names: &ConditionNames,
        etag: &str,
        last_modified: OffsetDateTime,
    ) -> Result<(), Fault> {
        match self.decide(etag, last_modified) {
            ReadVerdict::Proceed => Ok(()),
            ReadVerdict::Failed("If-Match") => Err(failed(names.matching)),
            ReadVerdict::Failed(_) => Err(failed(names.unmodified_since)),
            // A copy has no "not modified" response, so S3 reports the precondition as failed.
            ReadVerdict::NotModified if self.if_none_match.is_some() => {
                Err(failed(names.none_matching))
            }
            ReadVerdict::NotModified => Err(failed(names.modified_since)),
        }
    }
}

/// The names of the preconditions on one of the objects of a request, as error documents show them.
#[derive(Clone, Copy, Debug)]
pub struct ConditionNames {
    matching: &'static str,
    none_matching: &'static str,
    modified_since: &'static str,
    unmodified_since: &'static str,
}

impl ConditionNames {
    /// The names of the preconditions on the object in the request path.
    pub const OBJECT: ConditionNames = ConditionNames {
        matching: "If-Match",
        none_matching: "If-None-Match",
        modified_since: "If-Modified-Since",
        unmodified_since: "If-Unmodified-Since",
    };

    /// The names of the preconditions on the source of a copy.
    pub const COPY_SOURCE: ConditionNames = ConditionNames {
        matching: "x-amz-copy-source-If-Match",
        none_matching: "x-amz-copy-source-If-None-Match",
        modified_since: "x-amz-copy-source-If-Modified-Since",
        unmodified_since: "x-amz-copy-source-If-Unmodified-Since",
    };

    /// The names of the preconditions on the source of a rename.
    pub const RENAME_SOURCE: ConditionNames = ConditionNames {
        matching: "x-amz-rename-source-if-match",
        none_matching: "x-amz-rename-source-if-none-match",
        modified_since: "x-amz-rename-source-if-modified-since",
        unmodified_since: "x-amz-rename-source-if-unmodified-since",
    };
}

/// Returns true if a list of `If-None-Match` contains only valid entity tags. A star in quotes or
/// within a list is refused: the client means "only if there is no object", but no object has `*`
/// as its tag, so the precondition would never fail.
fn are_valid_tags(tags: &[ListedTag]) -> bool {
    !tags.is_empty() && tags.iter().all(|listed| !listed.tag.contains('*'))
}

impl WritePrecondition {
    /// Parses the precondition of `PutObject`, `CopyObject` or `CompleteMultipartUpload`.
    ///
    /// Fails with `NotImplemented` for preconditions that S3 does not define for writes: both
    /// headers at once, dates, and an `If-None-Match` that is neither `*` nor a list of entity
    /// tags.
    pub fn parse(fields: Fields<'_>) -> Result<WritePrecondition, Fault> {
        // Ignoring a precondition could overwrite an object that the client wanted to keep, so each
        // unsupported one is refused, even if it is empty.
        for name in ["if-modified-since", "if-unmodified-since"] {
            if fields.is_sent(name) {
                return Err(Fault::new(Code::NotImplemented).with("Header", name));
            }
        }
        if fields.is_sent("if-match") && fields.has("if-none-match") {
            return Err(Fault::new(Code::NotImplemented).with("Header", "If-None-Match"));
        }
        WritePrecondition::from_entity_tags(fields)
    }

    /// Parses the precondition on the entity tag, even in combinations that are refused. If both
    /// headers are present, returns `If-Match`.
    pub(crate) fn from_entity_tags(fields: Fields<'_>) -> Result<WritePrecondition, Fault> {
        // An empty `If-Match` matches no object, so the write is refused. An empty `If-None-Match`
        // is no precondition, as in S3.
        if let Some(list) = fields.joined_with_empty("if-match")? {
            return Ok(WritePrecondition::IfMatch(ETagList::parse(&list)));
        }
        let Some(list) = fields.joined("if-none-match")? else {
            return Ok(WritePrecondition::None);
        };
        match ETagList::parse(&list) {
            ETagList::Any => Ok(WritePrecondition::IfNoneMatchStar),
            ETagList::Tags(tags) if are_valid_tags(&tags) => {
                Ok(WritePrecondition::IfNoneMatch(ETagList::Tags(tags)))
            }
            ETagList::Tags(_) => {
                Err(Fault::new(Code::NotImplemented).with("Header", "If-None-Match"))
            }
        }
    }

    /// Checks the precondition of a write against the current object, so that a failing request
    /// ends early. `etag` is the ETag of this object without quotes; `None` if there is no object
    /// or only a delete marker. The commit checks again.
    ///
    /// Fails with `PreconditionFailed`, or with `NoSuchKey` for `If-Match` without an object.
    pub fn check(&self, etag: Option<&str>) -> Result<(), Fault> {
        match (self, etag) {
            (WritePrecondition::IfNoneMatchStar, Some(_)) => Err(failed("If-None-Match")),
            (WritePrecondition::IfMatch(list), Some(etag)) if !list.matches(etag) => {
                Err(failed("If-Match"))
            }
            (WritePrecondition::IfNoneMatch(list), Some(etag)) if list.matches_weakly(etag) => {
                Err(failed("If-None-Match"))
            }
            // S3 reports a missing object here instead of a failed precondition.
            (WritePrecondition::IfMatch(_), None) => Err(Code::NoSuchKey.into()),
            (WritePrecondition::None | WritePrecondition::IfNoneMatch(_), _)
            | (WritePrecondition::IfMatch(_), Some(_))
            | (WritePrecondition::IfNoneMatchStar, None) => Ok(()),
        }
    }
}

/// Returns the fault `PreconditionFailed` with the name of the precondition that failed.
pub fn failed(condition: &'static str) -> Fault {
    Fault::new(Code::PreconditionFailed).with("Condition", condition)
}

/// Returns a time as in HTTP headers: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn format_http_date(time: OffsetDateTime) -> String {
    let time = time.to_offset(time::UtcOffset::UTC);
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    // Written without the formatter of `time`, which takes longer than the rest of the header. The
    // format has no sign, so a negative year becomes 0000.
    let year = u16::try_from(year).unwrap_or_default();
    let mut out = String::with_capacity(HTTP_DATE_BYTES);
    out.push_str(short_name(&WEEKDAYS, time.weekday().number_days_from_monday()));
    out.push_str(", ");
    push_digits(&mut out, day.into(), 2);
    out.push(' ');
    out.push_str(short_name(&MONTHS, u8::from(month) - 1));
    out.push(' ');
    push_digits(&mut out, year, 4);
    for (number, before) in [(hour, ' '), (minute, ':'), (second, ':')] {
        out.push(before);
        push_digits(&mut out, number.into(), 2);
    }
    out.push_str(" GMT");
    out
}

const HTTP_DATE_BYTES: usize = 29;
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn short_name<const N: usize>(names: &[&'static str; N], index: u8) -> &'static str {
    names.get(usize::from(index)).copied().unwrap_or_default()
}

/// Parses a date of a header. `None` if it is malformed. The obsolete format with a two-digit year
/// is not accepted.
pub fn parse_http_date(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim();
    PrimitiveDateTime::parse(text, HTTP_DATE)
        .or_else(|_| PrimitiveDateTime::parse(text, ASCTIME_DATE))
        .ok()
        .map(PrimitiveDateTime::assume_utc)
}
