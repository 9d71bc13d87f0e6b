//! The permissions that a request needs: every action on every resource that it touches.

use std::borrow::Cow;

use super::facts::{LockFacts, RequestFacts};
use super::{Operation, S3Resource, Scope};
use crate::Fault;
use crate::acl::RequestedAcl;
use crate::conditions::{ETagList, ReadPreconditions, StatPrecondition, WritePrecondition};
use crate::name::{BucketName, CopySource, ObjectKey, VersionId};
use crate::object_lock;
use crate::request::{Deletion, Fields, PartNumber, PostObject, Query, RenameObject, WRITE_OFFSET};
use crate::tagging::{TagSet, Tagged};

/// An action on a resource, with the values that conditions of policies compare.
///
/// It is made by the code that carries the operation out or parses its request, from the values that
/// the operation uses. A policy therefore decides about the very thing that is going to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The action: `s3:GetObject`.
    pub action: &'static str,
    /// What it is done to.
    pub resource: S3Resource,
    /// The version of the object that the action is about; none for the current one.
    pub version: Option<VersionId>,
    /// The values that the request gives to condition keys.
    pub facts: RequestFacts,
}

/// The permissions that a request needs before anything is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: everybody may send the request, and its credentials are not looked at.
    Nothing,
    /// All of these; never empty.
    All(Vec<Permission>),
    /// All of these; never empty. The body has more values for condition keys, so the operation asks
    /// again when it has read the body.
    WithBody(Vec<Permission>),
    /// All of these; never empty. The upload of which the operation is a step has more values for
    /// condition keys: see `RequestFacts::continue_upload`.
    WithUpload(Vec<Permission>),
    /// Those that the body of `DeleteObjects` names: see `Permission::for_deletion`.
    FromBody,
}

impl Permission {
    /// To read an object, or one version of it: two actions, of which a request asks for one.
    ///
    /// A request that names a version, `null` included, "must have the `s3:GetObjectVersion`
    /// permission …; the `s3:GetObject` permission is not required in this scenario" (S3's API
    /// reference, `GetObject`, `versionId`).
    pub fn read(bucket: &BucketName, key: &ObjectKey, version: Option<&VersionId>) -> Permission {
        let action = if version.is_some() { "s3:GetObjectVersion" } else { "s3:GetObject" };
        Permission::on_version(action, bucket, key, version)
    }

    /// To delete an object, or one version of it, if the condition holds.
    pub fn delete(
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
        condition: WritePrecondition,
    ) -> Permission {
        let action = if version.is_some() { "s3:DeleteObjectVersion" } else { "s3:DeleteObject" };
        let facts = RequestFacts { condition: condition.into(), ..RequestFacts::default() };
        Permission { facts, ..Permission::on_version(action, bucket, key, version) }
    }

    /// Those that one entry of `DeleteObjects` needs.
    pub fn for_deletion(bucket: &BucketName, deletion: &Deletion) -> Vec<Permission> {
        let Deletion { key, version, condition, stat } = deletion;
        let version = version.as_ref();
        let mut all = vec![Permission::delete(bucket, key, version, condition.clone())];
        all.extend(Permission::for_comparison(condition, stat.is_some(), bucket, key, version));
        all
    }

    /// To go past a retention in governance mode, of one version or of the current one. The lock is
    /// the one that the request sets in its place, if it sets one.
    pub fn bypass_governance(
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
        lock: Option<LockFacts>,
    ) -> Permission {
        let facts = RequestFacts { lock, ..RequestFacts::default() };
        let action = "s3:BypassGovernanceRetention";
        Permission { facts, ..Permission::on_version(action, bucket, key, version) }
    }

    /// Those that a form needs.
    pub fn for_form(post: &PostObject, bucket: &BucketName) -> Vec<Permission> {
        let facts = RequestFacts::from_form(post);
        let on_key = |action| Permission::on_object(action, bucket, &post.key).with(&facts);
        let mut all = vec![on_key("s3:PutObject")];
        if !post.put.tags.is_empty() {
            all.push(on_key("s3:PutObjectTagging"));
        }
        if post.put.append_at.is_some() {
            all.push(Permission::read(bucket, &post.key, None));
        }
        if post.put.acl.as_ref().is_some_and(|acl| !acl.grants_only_owners()) {
            all.push(on_key("s3:PutObjectAcl"));
        }
        all.extend(Permission::for_comparison(&post.put.condition, false, bucket, &post.key, None));
        all
    }

    /// To make a write depend on an object's entity tag, or its size or time (`stat`). A client that
    /// may not read the object could otherwise find them out by trying. Whether there is an object
    /// at all, `*`, every writer may ask.
    ///
    /// S3's user guide says so under "Enforce conditional writes" (`If-Match` needs
    /// `s3:GetObject`, `If-None-Match: *` does not) and "How to perform conditional deletes" ("with an
    /// `ETag` value you must have the `s3:DeleteObject` and `s3:GetObject` permissions").
    pub fn for_comparison(
        condition: &WritePrecondition,
        stat: bool,
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
    ) -> Option<Permission> {
        let read = || Permission::read(bucket, key, version);
        match condition {
            _ if stat => Some(read()),
            WritePrecondition::IfMatch(ETagList::Tags(_))
            | WritePrecondition::IfNoneMatch(ETagList::Tags(_)) => Some(read()),
            WritePrecondition::IfMatch(ETagList::Any)
            | WritePrecondition::IfNoneMatch(ETagList::Any)
            | WritePrecondition::IfNoneMatchStar
            | WritePrecondition::None => None,
        }
    }

    /// To carry the tags of a copy's source over to its destination, asked for where there are any:
    /// "You must have `s3:GetObjectTagging` permission for the source object … and
    /// `s3:PutObjectTagging` permission for objects in the destination bucket" (AWS re:Post, on
    /// copying objects that have tags). The tags of a version are read by an action of their own.
    pub fn copy_tags(
        source: &CopySource,
        tags: &[(String, String)],
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> [Permission; 2] {
        let tags = TagSet::new(tags.to_vec(), Tagged::Object).ok();
        let facts = RequestFacts { tags, ..RequestFacts::default() };
        [
            Permission::read_tags(&source.bucket, &source.key, source.version.as_ref()),
            Permission::on_object("s3:PutObjectTagging", bucket, key).with(&facts),
        ]
    }

    /// To read the tags of an object, or of one of its versions.
    pub fn read_tags(
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
    ) -> Permission {
        let versioned = version.is_some();
        let action = if versioned { "s3:GetObjectVersionTagging" } else { "s3:GetObjectTagging" };
        Permission::on_version(action, bucket, key, version)
    }

    /// Any action on the current version of an object.
    pub fn on_object(action: &'static str, bucket: &BucketName, key: &ObjectKey) -> Permission {
        Permission::on_version(action, bucket, key, None)
    }

    /// Any action on a version of an object, or on the current one.
    pub fn on_version(
        action: &'static str,
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
    ) -> Permission {
        let resource = S3Resource::Object(bucket.clone(), key.clone());
        Permission { version: version.cloned(), ..Permission::on(action, resource) }
    }

    /// Any action on a bucket.
    pub fn on_bucket(action: &'static str, bucket: &BucketName) -> Permission {
        Permission::on(action, S3Resource::Bucket(bucket.clone()))
    }

    fn on(action: &'static str, resource: S3Resource) -> Permission {
        Permission { action, resource, version: None, facts: RequestFacts::default() }
    }

    fn with(self, facts: &RequestFacts) -> Permission {
        Permission { facts: facts.clone(), ..self }
    }

    /// The resource as policies name it, without its `arn:aws:s3:::`: `bucket`, `bucket/key`, or `*`
    /// for the service.
    pub fn resource_name(&self) -> Cow<'_, str> {
        match &self.resource {
            S3Resource::Service => "*".into(),
            S3Resource::Bucket(bucket) => bucket.as_str().into(),
            S3Resource::Object(bucket, key) => format!("{bucket}/{key}").into(),
        }
    }
}

impl Operation {
    /// Whether it needs no permission at all, whatever its request says. Then not even the
    /// signature is verified, if there is one.
    pub const fn needs_no_permission(self) -> bool {
        self.action().is_none()
    }

    /// The permissions that the operation needs: on its resource, on its copy source, and for what
    /// its headers add.
    ///
    /// Tags that a copy carries over from its source are not known here: see
    /// `Permission::copy_tags`. A list that grants nothing but full control to owners demands
    /// nothing, because many clients send it with everything.
    ///
    /// Faults: those of the copy source and of repeated parameters.
    pub fn demand(
        self,
        resource: &S3Resource,
        query: &Query,
        fields: Fields<'_>,
    ) -> Result<Demand, Fault> {
        if self == Operation::DeleteObjects {
            return Ok(Demand::FromBody);
        }
        let version = named_version(query)?;
        let version = version.as_ref();
        let Some(action) = self.versioned_action(version.is_some()) else {
            return Ok(Demand::Nothing);
        };
        let facts = RequestFacts::from_request(self, query, fields);
        let own = Permission::on(action, target_resource(self.scope(), resource)).with(&facts);
        let mut all = vec![Permission { version: version.cloned(), ..own }];
        let sets_acl = self.makes_an_object() || self == Operation::CreateBucket;
        let acl = if sets_acl { RequestedAcl::parse(fields)? } else { None };
        let acl = acl.is_some_and(|acl| !acl.grants_only_owners());
        match resource {
            S3Resource::Object(bucket, key) => {
                if acl {
                    all.push(Permission::on_object("s3:PutObjectAcl", bucket, key).with(&facts));
                }
                all.extend(self.related_permissions(bucket, key, version, query, fields)?);
                if self.makes_an_object() {
                    let headers =
                        NEW_OBJECT_ACTIONS.iter().filter(|(header, _)| fields.has(header));
                    let actions = headers.map(|(_, action)| *action);
                    all.extend(
                        actions.map(|it| Permission::on_object(it, bucket, key).with(&facts)),
                    );
                }
                all.extend(self.read_permissions(bucket, key, version, fields)?);
            }
            S3Resource::Bucket(bucket) if self == Operation::CreateBucket => {
                let also = new_bucket_permissions(bucket, acl, fields)?;
                all.extend(also.into_iter().map(|permission| permission.with(&facts)));
            }
            S3Resource::Bucket(_) | S3Resource::Service => {}
        }
        Ok(if self.has_values_in_body() {
            Demand::WithBody(all)
        } else if self.continues_upload() {
            Demand::WithUpload(all)
        } else {
            Demand::All(all)
        })
    }

    /// What an operation on an object needs for others that it touches.
    fn related_permissions(
        self,
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
        query: &Query,
        fields: Fields<'_>,
    ) -> Result<Vec<Permission>, Fault> {
        let mut all = Vec::new();
        if self == Operation::GetObjectAttributes {
            all.push(Permission::read(bucket, key, version));
        }
        if self.copies() {
            // What is wrong with it is said before the source is looked at.
            if let Some(number) = query.get("partNumber")? {
                PartNumber::parse(number)?;
            }
            let value = fields.get("x-amz-copy-source")?.unwrap_or_default();
            let source = CopySource::parse(value)?;
            all.push(Permission::read(&source.bucket, &source.key, source.version.as_ref()));
        }
        if self == Operation::RenameObject {
            let source = RenameObject::source(bucket, fields)?;
            // The source is deleted on the conditions that speak of the source.
            let condition = ReadPreconditions::parse_for_rename(fields).unwrap_or_default().into();
            let facts = RequestFacts { condition, ..RequestFacts::default() };
            all.push(Permission::read(bucket, &source, None));
            all.push(Permission::on_object("s3:DeleteObject", bucket, &source).with(&facts));
            if RenameObject::compares_target(fields) {
                all.push(Permission::read(bucket, key, None));
            }
        }
        Ok(all)
    }

    /// To read the object, if the answer lets its sender know something of the object.
    fn read_permissions(
        self,
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
        fields: Fields<'_>,
    ) -> Result<Vec<Permission>, Fault> {
        let mut all = Vec::new();
        if self == Operation::PutObject && fields.has(WRITE_OFFSET) {
            // What the answer says of the object, its length and checksums, only readers may know.
            all.push(Permission::read(bucket, key, None));
        }
        if self.has_write_precondition() {
            let condition = WritePrecondition::from_entity_tags(fields)?;
            let stat = self == Operation::DeleteObject
                && StatPrecondition::HEADERS.iter().any(|name| fields.has(name));
            all.extend(Permission::for_comparison(&condition, stat, bucket, key, version));
        }
        Ok(all)
    }

    /// Whether its body has values for condition keys.
    const fn has_values_in_body(self) -> bool {
        matches!(
            self,
            Operation::PutObjectTagging
                | Operation::PutObjectRetention
                | Operation::PutObjectLegalHold
                | Operation::CreateBucket
                | Operation::PutBucketOwnershipControls
        )
    }

    /// Returns true if the operation writes a part of an upload, or makes the object of one. The
    /// request that began the upload says what is kept with the object.
    pub const fn continues_upload(self) -> bool {
        matches!(
            self,
            Operation::UploadPart | Operation::UploadPartCopy | Operation::CompleteMultipartUpload
        )
    }

    /// Whether headers of its request set an access control list.
    pub(super) const fn sets_an_acl(self) -> bool {
        matches!(self, Operation::CreateBucket | Operation::PutBucketAcl | Operation::PutObjectAcl)
    }

    /// Whether parameters of its request say which keys it lists.
    pub(super) const fn lists_keys(self) -> bool {
        matches!(
            self,
            Operation::ListObjects | Operation::ListObjectsV2 | Operation::ListObjectVersions
        )
    }

    /// Whether its headers say what is kept with a new object.
    pub(super) const fn makes_an_object(self) -> bool {
        matches!(
            self,
            Operation::PutObject | Operation::CopyObject | Operation::CreateMultipartUpload
        )
    }

    /// Whether `If-Match` is a condition on what the operation writes.
    pub(super) const fn has_write_precondition(self) -> bool {
        matches!(
            self,
            Operation::PutObject
                | Operation::CopyObject
                | Operation::CompleteMultipartUpload
                | Operation::DeleteObject
        )
    }

    /// Pairs of actions by which S3 knows one operation: for the current version, and for one that
    /// is named.
    pub fn versioned_actions() -> Vec<(&'static str, &'static str)> {
        let actions = |one: &Operation| one.action().zip(one.versioned_action(true));
        let mut pairs: Vec<_> = Operation::ALL.iter().filter_map(actions).collect();
        pairs.retain(|(current, versioned)| current != versioned);
        // HeadObject has the actions of GetObject.
        pairs.dedup();
        pairs
    }
}

/// The version that a request names. One that cannot be read is kept as it is, because the operation
/// refuses it later, after the permissions.
fn named_version(query: &Query) -> Result<Option<VersionId>, Fault> {
    let text = query.get("versionId")?;
    Ok(text.map(|text| VersionId::parse(text).unwrap_or(VersionId::Other(text.to_owned()))))
}

/// Headers of a new object that need a permission of their own.
const NEW_OBJECT_ACTIONS: [(&str, &str); 3] = [
    ("x-amz-tagging", "s3:PutObjectTagging"),
    ("x-amz-object-lock-mode", "s3:PutObjectRetention"),
    ("x-amz-object-lock-legal-hold", "s3:PutObjectLegalHold"),
];

/// The permissions that what a new bucket is set to needs besides; `acl` says whether it has a list.
fn new_bucket_permissions(
    bucket: &BucketName,
    acl: bool,
    fields: Fields<'_>,
) -> Result<Vec<Permission>, Fault> {
    let mut actions = Vec::new();
    if acl {
        actions.push("s3:PutBucketAcl");
    }
    if object_lock::requests_object_lock(fields)? {
        actions.extend(["s3:PutBucketObjectLockConfiguration", "s3:PutBucketVersioning"]);
    }
    if fields.has("x-amz-object-ownership") {
        actions.push("s3:PutBucketOwnershipControls");
    }
    Ok(actions.into_iter().map(|action| Permission::on_bucket(action, bucket)).collect())
}

/// What an operation is about: a request names more than that where it lists the uploads of a key.
fn target_resource(scope: Scope, resource: &S3Resource) -> S3Resource {
    match (scope, resource) {
        (Scope::Bucket, S3Resource::Object(bucket, _)) => S3Resource::Bucket(bucket.clone()),
        (Scope::Service | Scope::Bucket | Scope::Object, resource) => resource.clone(),
    }
}
