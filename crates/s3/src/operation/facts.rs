//! Values that a request gives to the condition keys of policies.
//!
//! Invariant: each value is read exactly as the operation reads it, and only if the operation uses
//! it. A header that an operation ignores therefore has no value. For example, `If-None-Match: *`
//! as a form field has no value, because a form upload has no preconditions.
//!
//! The module does not evaluate policies; `policy` does.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use time::OffsetDateTime;

use super::Operation;
use crate::acl::AclPermission;
use crate::conditions::{ETagList, ReadPreconditions, WritePrecondition};
use crate::name::CopySource;
use crate::object_lock::{self, LockMode};
use crate::request::{Fields, PostObject, Query, append_at};
use crate::tagging::TagSet;

/// The values that a request gives to the condition keys of policies, such as `s3:prefix`, for one
/// of its permissions. A field is empty if the operation does not use such a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// The preconditions on the object that the action replaces or deletes.
    pub condition: ConditionFacts,
    /// The source of a copy: `bucket/key`, decoded, without the version.
    pub copy_source: Option<String>,
    /// The headers of the request that are values of condition keys, by lower-case name.
    pub(super) headers: Vec<(&'static str, String)>,
    /// The tags that the action sets.
    pub tags: Option<TagSet>,
    /// The object lock that the action sets; `None` if the action sets no lock. The parts that an
    /// action on an existing object does not set are those of the object.
    pub lock: Option<LockFacts>,
    /// The parameters of a listing of keys.
    pub listing: ListingFacts,
    /// The region in the document of `CreateBucket`.
    pub location: Option<String>,
    /// True if the operation creates an object that readers see. False if it is an earlier step of
    /// a multipart upload. `None` for all other operations.
    pub creates_object: Option<bool>,
}

/// The preconditions of a request on an object, as the operation evaluates them: the values of
/// `s3:if-match` and `s3:if-none-match`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionFacts {
    if_match: Option<ETagList>,
    if_none_match: Option<ETagList>,
}

/// The object lock that an action sets on an object version. A field is `None` if the action does
/// not set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockFacts {
    /// The retention mode.
    pub mode: Option<LockMode>,
    /// The end of the retention.
    pub until: Option<OffsetDateTime>,
    /// True if the action sets a legal hold, false if it removes one.
    pub legal_hold: Option<bool>,
}

/// The parameters of a listing of keys, as values of condition keys. A field is `None` if the
/// request does not have the parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingFacts {
    /// The parameter `prefix`.
    pub prefix: Option<String>,
    /// The parameter `delimiter`. An empty one counts as absent.
    pub delimiter: Option<String>,
    /// The parameter `max-keys`, as sent.
    pub max_keys: Option<String>,
}

impl ConditionFacts {
    /// Returns the value of the condition key `s3:if-match`: the listed entity tags.
    pub fn if_match(&self) -> Option<String> {
        self.if_match.as_ref().map(ETagList::to_string)
    }

    /// Returns the value of the condition key `s3:if-none-match`: `*`, or `None` for any other
    /// precondition. A policy that requires this key means "write once", and a list of entity tags
    /// does not have that effect.
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

/// Other headers of a new object that have condition keys. The key of a client for SSE-C is not
/// among them, because the gateway stores these headers with an upload.
const OBJECT_HEADERS: [&str; 4] = [
    "x-amz-storage-class",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-customer-algorithm",
];

/// Headers of a new object whose values are parsed before policies compare them.
const UPLOAD_HEADERS: [&str; 4] =
    ["x-amz-tagging", object_lock::MODE, object_lock::UNTIL, object_lock::HOLD];

/// The header of a copy that selects the source of its metadata.
const METADATA_DIRECTIVE: &str = "x-amz-metadata-directive";

/// The header of `CreateBucket` that sets the object ownership rule, which determines the owner of
/// new objects.
pub(crate) const OWNERSHIP: &str = "x-amz-object-ownership";

impl RequestFacts {
    /// Returns the value of a header that the operation uses. `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Sets the object ownership rule, which determines the owner of new objects, that a request
    /// document asks for. Policies compare it under the key of the header.
    pub fn set_ownership(&mut self, ownership: &str) {
        self.headers.push((OWNERSHIP, ownership.to_owned()));
    }

    /// Returns the headers of `CreateMultipartUpload` that have values for condition keys, as sent.
    /// The gateway stores them, and later steps of the upload read their values from them: see
    /// [`RequestFacts::continue_upload`].
    pub fn upload_headers(fields: Fields<'_>) -> Vec<(String, String)> {
        let names = ACL_HEADERS.iter().chain(&OBJECT_HEADERS).chain(&UPLOAD_HEADERS);
        let header = |name: &&str| {
            let value = fields.get(name).ok().flatten()?;
            Some(((*name).to_owned(), value.to_owned()))
        };
        names.filter_map(header).collect()
    }

    /// Adds to the values of condition keys of a later step the values of the request that began
    /// the multipart upload. `headers` are those that `upload_headers` returned for this request.
    /// Each step has the action `s3:PutObject`. For example, a policy that denies `s3:PutObject`
    /// without `x-amz-server-side-encryption` accepts the parts of an upload that began with this
    /// header, although `UploadPart` has no such header.
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

    /// Returns the values for an append to an existing object. The object keeps its properties, so
    /// the headers of a new object have no effect and therefore no value.
    #[must_use]
    pub fn of_append(&self) -> RequestFacts {
        let kept = self.clone();
        RequestFacts { headers: Vec::new(), tags: None, lock: None, ..kept }
    }

    /// Reads the values of condition keys for the operation's own action from the request. A
    /// malformed header has no value here; the operation refuses it later.
    pub(super) fn from_request(
        operation: Operation,
        query: &Query,
        fields: Fields<'_>,
    ) -> RequestFacts {
        let appends = append_at(fields).ok().flatten().is_some_and(|offset| offset > 0);
        let mut facts = RequestFacts::default();
        // An append keeps the properties of the object, so these headers have an effect only if the
        // request creates the object.
        if operation.makes_an_object() && !(operation == Operation::PutObject && appends) {
            facts.add_new_object_headers(fields);
        }
        if operation == Operation::CopyObject {
            facts.copy_headers(&[METADATA_DIRECTIVE], fields);
            // The tags come from the source unless the request replaces them.
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
            facts.condition =
                ReadPreconditions::parse_for_target(fields).unwrap_or_default().into();
        }
        if operation.copies() {
            let source = fields.get("x-amz-copy-source").ok().flatten();
            let source = source.and_then(|source| CopySource::parse(source).ok());
            facts.copy_source = source.map(|source| format!("{}/{}", source.bucket, source.key));
        }
        facts.creates_object = creates_object(operation);
        facts
    }

    /// Reads the values of condition keys from the fields of a form upload.
    pub(super) fn from_form(post: &PostObject) -> RequestFacts {
        let fields = Fields::new(post.headers(), &[]);
        let mut facts = RequestFacts::from_request(Operation::PutObject, &Query::default(), fields);
        facts.condition = post.put.condition.clone().into();
        facts.tags = Some(post.put.tags.clone()).filter(|_| post.put.append_at.unwrap_or(0) == 0);
        facts
    }

    /// Adds the values of condition keys that come from the headers of a request that creates an
    /// object.
    fn add_new_object_headers(&mut self, fields: Fields<'_>) {
        self.copy_headers(&ACL_HEADERS, fields);
        self.copy_headers(&OBJECT_HEADERS, fields);
        self.lock = Some(LockFacts::from_headers(fields));
        // Policies compare single tags, so the header is parsed here.
        let tags = fields.get("x-amz-tagging").ok().flatten();
        self.tags = tags.and_then(|tags| TagSet::parse_header(tags).ok());
    }

    /// Copies the values of these headers as values of condition keys. A header that cannot be read
    /// has no value.
    fn copy_headers(&mut self, names: &[&'static str], fields: Fields<'_>) {
        for name in names {
            // A repeated or malformed header has no value; the operation refuses it with its own
            // fault.
            if let Ok(Some(value)) = fields.get(name) {
                self.headers.push((name, value.to_owned()));
            }
        }
    }
}

impl LockFacts {
    /// Reads the object lock that a write requests in its headers. An empty header counts as
    /// absent.
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
    /// Reads the parameters of a listing of keys. A repeated parameter has no value.
    fn from_query(query: &Query) -> ListingFacts {
        let get = |name| query.get(name).ok().flatten().map(str::to_owned);
        ListingFacts {
            prefix: get("prefix"),
            delimiter: get("delimiter").filter(|delimiter| !delimiter.is_empty()),
            max_keys: get("max-keys").filter(|count| !count.is_empty()),
        }
    }
}

/// Returns the value of the condition key `s3:ObjectCreationOperation`; `None` for operations that
/// are no step of the creation of an object. AWS has this key so that a policy that enforces
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
