//! Preconditions: what `If-…` headers mean for an object.
//!
//! The preconditions of reads are decided here. That of a write becomes a guard of the commit,
//! which decides it; here it is only checked early.

use std::fmt;

use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::fields::Fields;
use crate::{Code, Fault};

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the form that is sent.
const HTTP_DATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
);
/// `Sun Nov  6 08:49:37 1994`, an obsolete form that recipients must still accept.
const ASCTIME_DATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
);

/// A list of entity tags, or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ETagList {
    /// `*`: any object that exists.
    Any,
    /// The tags, without quotes and without the mark of weakness.
    Tags(Vec<ListedTag>),
}

/// An entity tag as a client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTag {
    /// The tag without its quotes.
    pub tag: String,
    /// Whether it came as `W/"…"`.
    pub weak: bool,
}

/// The conditions of a read, or on the source of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPreconditions {
    /// `If-Match`.
    pub if_match: Option<ETagList>,
    /// `If-None-Match`.
    pub if_none_match: Option<ETagList>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<OffsetDateTime>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<OffsetDateTime>,
}

/// The outcome of the preconditions of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadVerdict {
    /// The read goes on.
    Proceed,
    /// 304, without a body.
    NotModified,
    /// 412; the name of the condition that failed.
    Failed(&'static str),
}

/// The precondition of a write, as its headers state it. It is decided when the write is
/// committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WritePrecondition {
    /// The write takes place whatever is there.
    #[default]
    None,
    /// `If-None-Match: *`: 412 if the key has an object.
    IfNoneMatchStar,
    /// `If-Match`: 412 if the object's ETag is not listed, 404 if there is none.
    IfMatch(ETagList),
    /// `If-None-Match` with tags: 412 if the object's ETag is listed. RFC 9110 has it, S3 has not.
    IfNoneMatch(ETagList),
}

/// What else must hold of an object for it to be deleted, besides its entity tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatPrecondition {
    /// Its size in bytes: `x-amz-if-match-size`.
    pub size: Option<u64>,
    /// When it last changed: `x-amz-if-match-last-modified-time`. Whole seconds count.
    pub modified: Option<OffsetDateTime>,
}

impl StatPrecondition {
    /// The headers that state it.
    pub(crate) const HEADERS: [&str; 2] =
        ["x-amz-if-match-size", "x-amz-if-match-last-modified-time"];

    /// Reads the headers of `DeleteObject`. Fault: `InvalidArgument`.
    pub fn parse(fields: Fields<'_>) -> Result<StatPrecondition, Fault> {
        let [size, modified] = StatPrecondition::HEADERS;
        StatPrecondition::from_texts((size, fields.get(size)?), (modified, fields.get(modified)?))
    }

    /// Reads both parts, each with the name by which a refusal knows it. A condition that cannot be
    /// read is never passed over: the object could be gone then.
    pub(crate) fn from_texts(
        size: (&'static str, Option<&str>),
        modified: (&'static str, Option<&str>),
    ) -> Result<StatPrecondition, Fault> {
        let invalid = |name: &'static str, text: &str| {
            Fault::new(Code::InvalidArgument).with("ArgumentName", name).with("ArgumentValue", text)
        };
        let number = |text: &str| {
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

    /// Whether it states anything.
    pub fn is_some(self) -> bool {
        self.size.is_some() || self.modified.is_some()
    }

    /// How S3 calls it in a refusal; nothing if it states nothing.
    pub fn name(self) -> Option<&'static str> {
        match self {
            StatPrecondition { modified: Some(_), .. } => Some("If-Match-Last-Mod-Time"),
            StatPrecondition { size: Some(_), .. } => Some("If-Match-Size"),
            StatPrecondition { .. } => None,
        }
    }
}

impl ETagList {
    /// Reads a list. Quotes may be missing, as some clients leave them out.
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
            // A comma may stand inside quotes; nothing can escape a quote there.
            let (tag, after) = match unmarked.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => unmarked.split_once(',').unwrap_or((unmarked, "")),
            };
            if !tag.trim().is_empty() {
                tags.push(ListedTag { tag: tag.trim().to_owned(), weak });
            }
            rest = after.trim_start_matches([',', ' ', '\t']);
        }
        ETagList::Tags(tags)
    }

    /// Whether the list holds this tag (given without quotes) by strong comparison.
    pub fn matches(&self, etag: &str) -> bool {
        match self {
            ETagList::Any => true,
            ETagList::Tags(tags) => tags.iter().any(|listed| !listed.weak && listed.tag == etag),
        }
    }

    /// Whether the list holds this tag by weak comparison, as `If-None-Match` has it.
    pub fn matches_weakly(&self, etag: &str) -> bool {
        match self {
            ETagList::Any => true,
            ETagList::Tags(tags) => tags.iter().any(|listed| listed.tag == etag),
        }
    }
}

/// The list as a header has it: `*`, or tags in quotes, separated by commas.
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
    /// Reads the conditions of GET and HEAD. A date that does not parse is no condition.
    pub fn parse(fields: Fields<'_>) -> Result<ReadPreconditions, Fault> {
        ReadPreconditions::with_prefix(fields, "")
    }

    /// Reads the conditions on the source of a copy, `x-amz-copy-source-if-…`.
    pub fn parse_for_source(fields: Fields<'_>) -> Result<ReadPreconditions, Fault> {
        ReadPreconditions::with_prefix(fields, "x-amz-copy-source-")
    }

    /// Reads the conditions on an object that is renamed, `x-amz-rename-source-if-…`.
    pub fn parse_for_rename(fields: Fields<'_>) -> Result<ReadPreconditions, Fault> {
        ReadPreconditions::with_prefix(fields, "x-amz-rename-source-")
    }

    fn with_prefix(fields: Fields<'_>, prefix: &str) -> Result<ReadPreconditions, Fault> {
        let tags = |name: &str| -> Result<_, Fault> {
            Ok(fields.joined(&format!("{prefix}{name}"))?.map(|text| ETagList::parse(&text)))
        };
        let date = |name: &str| -> Result<_, Fault> {
            Ok(fields.get(&format!("{prefix}{name}"))?.and_then(parse_http_date))
        };
        Ok(ReadPreconditions {
            if_match: tags("if-match")?,
            if_none_match: tags("if-none-match")?,
            if_modified_since: date("if-modified-since")?,
            if_unmodified_since: date("if-unmodified-since")?,
        })
    }

    /// Decides, in the order of RFC 9110: `If-Match` hides `If-Unmodified-Since`, and
    /// `If-None-Match` hides `If-Modified-Since`.
    ///
    /// `etag` comes without quotes. Times count in whole seconds, as headers carry them.
    pub fn decide(&self, etag: &str, last_modified: OffsetDateTime) -> ReadVerdict {
        let modified = last_modified.unix_timestamp();
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

    /// Decides for what is copied, renamed or replaced, where nothing is ever "not modified".
    ///
    /// Fault: `PreconditionFailed` with the condition's name.
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
            ReadVerdict::NotModified if self.if_none_match.is_some() => {
                Err(failed(names.none_matching))
            }
            ReadVerdict::NotModified => Err(failed(names.modified_since)),
        }
    }
}

/// How refusals call the conditions on one of the objects that a request is about.
#[derive(Clone, Copy, Debug)]
pub struct ConditionNames {
    matching: &'static str,
    none_matching: &'static str,
    modified_since: &'static str,
    unmodified_since: &'static str,
}

impl ConditionNames {
    /// Of the object that a request names.
    pub const OBJECT: ConditionNames = ConditionNames {
        matching: "If-Match",
        none_matching: "If-None-Match",
        modified_since: "If-Modified-Since",
        unmodified_since: "If-Unmodified-Since",
    };

    /// Of the source of a copy.
    pub const COPY_SOURCE: ConditionNames = ConditionNames {
        matching: "x-amz-copy-source-If-Match",
        none_matching: "x-amz-copy-source-If-None-Match",
        modified_since: "x-amz-copy-source-If-Modified-Since",
        unmodified_since: "x-amz-copy-source-If-Unmodified-Since",
    };

    /// Of an object that is renamed.
    pub const RENAME_SOURCE: ConditionNames = ConditionNames {
        matching: "x-amz-rename-source-if-match",
        none_matching: "x-amz-rename-source-if-none-match",
        modified_since: "x-amz-rename-source-if-modified-since",
        unmodified_since: "x-amz-rename-source-if-unmodified-since",
    };
}

/// Whether a list states something about entity tags. A star in quotes, or in a list, means "only if
/// there is no object" to its sender, and no object has it as its tag: such a list would never refuse.
fn are_valid_tags(tags: &[ListedTag]) -> bool {
    !tags.is_empty() && tags.iter().all(|listed| !listed.tag.contains('*'))
}

impl WritePrecondition {
    /// Reads the conditions of `PutObject`, `CopyObject` and `CompleteMultipartUpload`.
    ///
    /// Fault: `NotImplemented` for what S3 does not define on writes: both conditions at once, dates,
    /// and an `If-None-Match` that is neither `*` nor a list of entity tags.
    pub fn parse(fields: Fields<'_>) -> Result<WritePrecondition, Fault> {
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

    /// The precondition on the entity tag, whether it is served or not; of two, `If-Match`.
    pub(crate) fn from_entity_tags(fields: Fields<'_>) -> Result<WritePrecondition, Fault> {
        // An empty `If-Match` matches no object, so the write is refused. An empty `If-None-Match`
        // is no condition, as S3 has it.
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

    /// Decides against the object as it stands; `None` where there is none or only a delete
    /// marker. The commit decides again.
    ///
    /// Faults: `PreconditionFailed`, or `NoSuchKey` for `If-Match` without an object.
    pub fn check(&self, etag: Option<&str>) -> Result<(), Fault> {
        match (self, etag) {
            (WritePrecondition::IfNoneMatchStar, Some(_)) => Err(failed("If-None-Match")),
            (WritePrecondition::IfMatch(list), Some(etag)) if !list.matches(etag) => {
                Err(failed("If-Match"))
            }
            (WritePrecondition::IfNoneMatch(list), Some(etag)) if list.matches_weakly(etag) => {
                Err(failed("If-None-Match"))
            }
            (WritePrecondition::IfMatch(_), None) => Err(Code::NoSuchKey.into()),
            _ => Ok(()),
        }
    }
}

/// `PreconditionFailed`, naming the condition.
pub fn failed(condition: &'static str) -> Fault {
    Fault::new(Code::PreconditionFailed).with("Condition", condition)
}

/// A time as HTTP headers carry it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn format_http_date(time: OffsetDateTime) -> String {
    // Every component of the format exists in every date, so that this cannot fail.
    time.to_offset(time::UtcOffset::UTC).format(HTTP_DATE).unwrap_or_default()
}

/// Reads a date of a header. `None` if it is none; the obsolete two-digit year is not read.
pub fn parse_http_date(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim();
    PrimitiveDateTime::parse(text, HTTP_DATE)
        .or_else(|_| PrimitiveDateTime::parse(text, ASCTIME_DATE))
        .ok()
        .map(PrimitiveDateTime::assume_utc)
}
