//! Values that a request gives to the condition keys of policies.
//!
//! Each value is read the way in which the operation reads it, and only if the operation uses it. A
//! header that an operation ignores therefore has no value. For example, `If-None-Match: *` beside a
//! form says nothing, because a form has no preconditions.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use time::OffsetDateTime;

use super::Operation;
use crate::acl::AclPermission;
use crate::conditions::{ETagList, ReadPreconditions, WritePrecondition};
use crate::name::CopySource;
use crate::object_lock::{self, LockMode};
use crate::request::{Fields, PostObject, Query, WRITE_OFFSET};
use crate::tagging::TagSet;

/// The values that a request gives to one permission. A field is empty if the operation that asks
/// for the permission does not use such a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// The preconditions on the object that the action replaces or deletes.
    pub condition: ConditionFacts,
    /// The source of a copy: `bucket/key`, decoded, without its version.
    pub copy_source: Option<String>,
    /// Headers of the request, by their names in lower case.
    pub(super) headers: Vec<(&'static str, String)>,
    /// The tags that the action sets.
    pub tags: Option<TagSet>,
    /// The object lock that the action sets; none if it sets no lock at all.
    pub lock: Option<LockFacts>,
    /// What is listed.
    pub listing: ListingFacts,
    /// The region that the document of `CreateBucket` names.
    pub location: Option<String>,
    /// True if the operation makes an object that readers see; false if it is a step of a multipart
    /// upload before that.
    pub creates_object: Option<bool>,
}

/// Preconditions, as the operation decides them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionFacts {
    if_match: Option<ETagList>,
    if_none_match: Option<ETagList>,
}

/// The object lock that an action sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockFacts {
    /// The mode of the retention.
    pub mode: Option<LockMode>,
    /// The end of the retention.
    pub until: Option<OffsetDateTime>,
    /// Whether a legal hold is set, or taken away.
    pub legal_hold: Option<bool>,
}

/// Parameters of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingFacts {
    /// `prefix`.
    pub prefix: Option<String>,
    /// `delimiter`. An empty one is none.
    pub delimiter: Option<String>,
    /// `max-keys`, as sent.
    pub max_keys: Option<String>,
}

impl ConditionFacts {
    /// The value of `s3:if-match`.
    pub fn if_match(&self) -> Option<String> {
        self.if_match.as_ref().map(ETagList::to_string)
    }

    /// The value of `s3:if-none-match`: `*` or none. A policy that asks for the key means "write
    /// once", and a list of tags does not say that.
    pub fn if_none_match(&self) -> Option<&'static str> {
        self.if_none_match.as_ref().filter(|list| **list == ETagList::Any).map(|_| "*")
    }
}

impl From<WritePrecondition> for ConditionFacts {
    fn from(condition: WritePrecondition) -> ConditionFacts {
        let (if_match, if_none_match) = match condition {
            WritePrecondition::None => (None, None),
            WritePrecondition::IfNoneMatchStar => (None, Some(ETagList::Any)),
            WritePrecondition::IfMatch(list) => (Some(list), None),
            WritePrecondition::IfNoneMatch(list) => (None, Some(list)),
        };
        ConditionFacts { if_match, if_none_match }
    }
}

impl From<ReadPreconditions> for ConditionFacts {
    fn from(conditions: ReadPreconditions) -> ConditionFacts {
        ConditionFacts { if_match: conditions.if_match, if_none_match: conditions.if_none_match }
    }
}

/// Headers by which a request sets an access control list.
const ACL_HEADERS: [&str; 6] = [
    "x-amz-acl",
    AclPermission::FullControl.header(),
    AclPermission::Read.header(),
    AclPermission::Write.header(),
    AclPermission::ReadAcp.header(),
    AclPermission::WriteAcp.header(),
];

/// Other headers of a new object that policies may ask for.
const OBJECT_HEADERS: [&str; 3] = [
    "x-amz-storage-class",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
];

/// Headers of a new object that are more than a text to policies.
const UPLOAD_HEADERS: [&str; 4] =
    ["x-amz-tagging", object_lock::MODE, object_lock::UNTIL, object_lock::HOLD];

/// The header of a copy that says where its metadata comes from.
const METADATA_DIRECTIVE: &str = "x-amz-metadata-directive";

/// The header of a bucket that says whom its objects belong to.
pub(crate) const OWNERSHIP: &str = "x-amz-object-ownership";

impl RequestFacts {
    /// The value of a header that the operation uses. The name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Sets the ownership that a document asks for, which has the key of a header.
    pub fn set_ownership(&mut self, ownership: &str) {
        self.headers.push((OWNERSHIP, ownership.to_owned()));
    }

    /// Returns the headers of `CreateMultipartUpload` that have values for condition keys, as sent. A
    /// later step of the upload gets its values from them: see [`RequestFacts::continue_upload`].
    pub fn upload_headers(fields: Fields<'_>) -> Vec<(String, String)> {
        let names = ACL_HEADERS.iter().chain(&OBJECT_HEADERS).chain(&UPLOAD_HEADERS);
        let header = |name: &&str| {
            let value = fields.get(name).ok().flatten()?;
            Some(((*name).to_owned(), value.to_owned()))
        };
        names.filter_map(header).collect()
    }

    /// Adds the values that the request which began an upload gives to a later step of it. Each step
    /// has the action `s3:PutObject`. For example, a policy that denies `s3:PutObject` without
    /// `x-amz-server-side-encryption` lets the parts of an upload pass that began with that header,
    /// though `UploadPart` has no such header.
    pub fn continue_upload(&mut self, headers: &[(String, String)]) {
        let pair = |(name, value): &(String, String)| {
            Some((
                HeaderName::from_bytes(name.as_bytes()).ok()?,
                HeaderValue::from_str(value).ok()?,
            ))
        };
        let headers: HeaderMap = headers.iter().filter_map(pair).collect();
        self.add_new_object_headers(Fields::new(&headers, &[]));
    }

    /// The values that the request gives to the operation's own action. What cannot be read has no
    /// value here; the operation refuses it later.
    pub(super) fn from_request(
        operation: Operation,
        query: &Query,
        fields: Fields<'_>,
    ) -> RequestFacts {
        let appends = fields.get(WRITE_OFFSET).ok().flatten().is_some_and(|offset| offset != "0");
        let mut facts = RequestFacts::default();
        // An append keeps what the object has: these headers count only where the object is made.
        if operation.makes_an_object() && !(operation == Operation::PutObject && appends) {
            facts.add_new_object_headers(fields);
        }
        if operation == Operation::CopyObject {
            facts.copy_headers(&[METADATA_DIRECTIVE], fields);
            // The tags come from the source unless they are replaced.
            if fields.get("x-amz-tagging-directive").ok().flatten() != Some("REPLACE") {
                facts.tags = None;
            }
        }
        if operation == Operation::CreateBucket {
            facts.copy_headers(&[OWNERSHIP], fields);
        }
        if operation.sets_an_acl() {
            facts.copy_headers(&ACL_HEADERS, fields);
        }
        if operation.lists_keys() {
            facts.listing = ListingFacts::from_query(query);
        }
        if operation.has_write_precondition() {
            facts.condition =
                WritePrecondition::from_entity_tags(fields).unwrap_or_default().into();
        }
        if operation == Operation::RenameObject {
            facts.condition = ReadPreconditions::parse(fields).unwrap_or_default().into();
        }
        if operation.copies() {
            let source = fields.get("x-amz-copy-source").ok().flatten();
            let source = source.and_then(|source| CopySource::parse(source).ok());
            facts.copy_source = source.map(|source| format!("{}/{}", source.bucket, source.key));
        }
        facts.creates_object = creates_object(operation);
        if facts.creates_object.is_some() {
            // The lock of the object that is there now says nothing about the new one.
            facts.lock.get_or_insert_default();
        }
        facts
    }

    /// The values of a form.
    pub(super) fn from_form(post: &PostObject) -> RequestFacts {
        let fields = Fields::new(post.headers(), &[]);
        let mut facts = RequestFacts::from_request(Operation::PutObject, &Query::default(), fields);
        facts.condition = post.put.condition.clone().into();
        facts.tags = Some(post.put.tags.clone()).filter(|_| post.put.append_at.unwrap_or(0) == 0);
        facts
    }

    fn add_new_object_headers(&mut self, fields: Fields<'_>) {
        self.copy_headers(&ACL_HEADERS, fields);
        self.copy_headers(&OBJECT_HEADERS, fields);
        self.lock = Some(LockFacts::from_headers(fields));
        let tags = fields.get("x-amz-tagging").ok().flatten();
        self.tags = tags.and_then(|tags| TagSet::parse_header(tags).ok());
    }

    fn copy_headers(&mut self, names: &[&'static str], fields: Fields<'_>) {
        for name in names {
            if let Ok(Some(value)) = fields.get(name) {
                self.headers.push((name, value.to_owned()));
            }
        }
    }
}

impl LockFacts {
    /// The lock that a write asks for in its headers. An empty header is none.
    fn from_headers(fields: Fields<'_>) -> LockFacts {
        let get = |name| fields.get(name).ok().flatten().filter(|value| !value.is_empty());
        LockFacts {
            mode: get(object_lock::MODE).and_then(LockMode::named),
            until: get(object_lock::UNTIL).and_then(crate::xml::parse_time),
            legal_hold: get(object_lock::HOLD)
                .and_then(object_lock::LegalHold::named)
                .map(object_lock::LegalHold::is_on),
        }
    }
}

impl ListingFacts {
    fn from_query(query: &Query) -> ListingFacts {
        let get = |name| query.get(name).ok().flatten().map(str::to_owned);
        ListingFacts {
            prefix: get("prefix"),
            delimiter: get("delimiter").filter(|delimiter| !delimiter.is_empty()),
            max_keys: get("max-keys").filter(|count| !count.is_empty()),
        }
    }
}

/// The value of `s3:ObjectCreationOperation`, which AWS has so that a policy that enforces
/// conditional writes can exempt the steps of a multipart upload, which have no preconditions.
const fn creates_object(operation: Operation) -> Option<bool> {
    let creates = matches!(
        operation,
        Operation::PutObject
            | Operation::PostObject
            | Operation::CopyObject
            | Operation::RenameObject
            | Operation::CompleteMultipartUpload
    );
    let prepares = matches!(
        operation,
        Operation::CreateMultipartUpload | Operation::UploadPart | Operation::UploadPartCopy
    );
    if creates || prepares { Some(creates) } else { None }
}

#[cfg(test)]
mod tests;
