//! The permissions that a request needs: each action on each resource that the operation reads or
//! changes.
//!
//! For example, `CopyObject` with `x-amz-tagging` needs `s3:PutObject` and `s3:PutObjectTagging` on
//! the destination and `s3:GetObject` on the source.
//!
//! Invariant: a permission is built from the same parsed values that the operation uses. A policy
//! therefore decides about exactly the change that the operation makes.
//!
//! The module does not know who sent the request, or which policies and ACLs exist.

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

/// A permission that a request needs: an action on a resource, with the values that the conditions
/// of policies compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The IAM action: `s3:GetObject`.
    pub action: &'static str,
    /// The resource that the action changes or reads.
    pub resource: S3Resource,
    /// The object version that the action is about; `None` for the current version.
    pub version: Option<VersionId>,
    /// The values that the request gives to condition keys.
    pub facts: RequestFacts,
}

/// The permissions that a request needs before the gateway reads any metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The request needs no permission: anyone may send it, and its credentials are not verified.
    Nothing,
    /// The request needs all of these permissions; never empty.
    All(Vec<Permission>),
    /// The request needs all of these permissions; never empty. The body has more values for
    /// condition keys, so the operation checks again after it has read the body.
    WithBody(Vec<Permission>),
    /// The request needs all of these permissions; never empty. The multipart upload that the
    /// operation continues has more values for condition keys: see `RequestFacts::continue_upload`.
    WithUpload(Vec<Permission>),
    /// The permissions are known only after the body of `DeleteObjects` has been read, because each
    /// entry needs its own: see `Permission::for_deletion`.
    FromBody,
}

impl Permission {
    /// Returns the permission to read an object or one of its versions. S3 has two actions, and a
    /// request needs exactly one of them.
    ///
    /// A request that names a version, `null` included, "must have the `s3:GetObjectVersion`
    /// permission …; the `s3:GetObject` permission is not required in this scenario" (S3's API
    /// reference, `GetObject`, `versionId`).
    pub fn read(bucket: &BucketName, key: &ObjectKey, version: Option<&VersionId>) -> Permission {
        let action = if version.is_some() { "s3:GetObjectVersion" } else { "s3:GetObject" };
        Permission::on_version(action, bucket, key, version)
    }

    /// Returns the permission to delete an object or one of its versions under a precondition.
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

    /// Returns the permissions that one entry of `DeleteObjects` needs.
    pub fn for_deletion(bucket: &BucketName, deletion: &Deletion) -> Vec<Permission> {
        let Deletion { key, version, condition, stat } = deletion;
        let version = version.as_ref();
        // The entry's own preconditions are compared, not those of the request.
        let mut all = vec![Permission::delete(bucket, key, version, condition.clone())];
        all.extend(Permission::for_comparison(condition, stat.is_some(), bucket, key, version));
        all
    }

    /// Returns the permission to bypass a retention in governance mode: to delete the version, or
    /// to shorten or remove its retention. `lock` is the lock that the request sets instead, if
    /// any. `version` is `None` for the current version.
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

    /// Returns the permissions that a form upload needs.
    pub fn for_form(post: &PostObject, bucket: &BucketName) -> Vec<Permission> {
        let facts = RequestFacts::from_form(post);
        let on_key = |action| Permission::on_object(action, bucket, &post.key).with(&facts);
        let mut all = vec![on_key("s3:PutObject")];
        if !post.put.tags.is_empty() {
            all.push(on_key("s3:PutObjectTagging"));
        }
        // The response to an append reveals the object's length and checksum, so the sender must be
        // able to read it.
        if post.put.append_at.is_some() {
            all.push(Permission::read(bucket, &post.key, None));
        }
        if post.put.acl.as_ref().is_some_and(|acl| !acl.grants_only_owners()) {
            all.push(on_key("s3:PutObjectAcl"));
        }
        all.extend(Permission::for_comparison(&post.put.condition, false, bucket, &post.key, None));
        all
    }

    /// Returns the permission to make a write depend on the object's entity tag, or on its size or
    /// time (`stat`). A client that may not read the object could otherwise find these values by
    /// trial. `If-Match: *` and `If-None-Match: *` reveal only whether an object exists, and each
    /// writer may ask that.
    ///
    /// S3's user guide has these rules under "Enforce conditional writes" (`If-Match` needs
    /// `s3:GetObject`, `If-None-Match: *` does not) and "How to perform conditional deletes" ("with
    /// an `ETag` value you must have the `s3:DeleteObject` and `s3:GetObject` permissions").
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

    /// Returns the permissions to copy the tags of a copy source to the destination. The caller
    /// checks them only if the source has tags: "You must have `s3:GetObjectTagging` permission for
    /// the source object … and `s3:PutObjectTagging` permission for objects in the destination
    /// bucket" (AWS re:Post, on copying objects that have tags). Reading the tags of a named
    /// version has its own action.
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

    /// Returns the permission to read the tags of an object or of one of its versions.
    pub fn read_tags(
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
    ) -> Permission {
        let versioned = version.is_some();
        let action = if versioned { "s3:GetObjectVersionTagging" } else { "s3:GetObjectTagging" };
        Permission::on_version(action, bucket, key, version)
    }

    /// Returns a permission for an action on the current version of an object.
    pub fn on_object(action: &'static str, bucket: &BucketName, key: &ObjectKey) -> Permission {
        Permission::on_version(action, bucket, key, None)
    }

    /// Returns a permission for an action on a version of an object; `None` is the current version.
    pub fn on_version(
        action: &'static str,
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
    ) -> Permission {
        let resource = S3Resource::Object(bucket.clone(), key.clone());
        Permission { version: version.cloned(), ..Permission::on(action, resource) }
    }

    /// Returns a permission for an action on a bucket.
    pub fn on_bucket(action: &'static str, bucket: &BucketName) -> Permission {
        Permission::on(action, S3Resource::Bucket(bucket.clone()))
    }

    /// Returns a permission for an action that concerns no bucket, for example
    /// `admin:ListUsers`. Statements with the resource `*` cover it.
    pub fn on_service(action: &'static str) -> Permission {
        Permission::on(action, S3Resource::Service)
    }

    fn on(action: &'static str, resource: S3Resource) -> Permission {
        Permission { action, resource, version: None, facts: RequestFacts::default() }
    }

    fn with(self, facts: &RequestFacts) -> Permission {
        Permission { facts: facts.clone(), ..self }
    }

    /// Returns the resource as policies name it, without `arn:aws:s3:::`: `bucket`, `bucket/key`,
    /// or `*` for the service.
    pub fn resource_name(&self) -> Cow<'_, str> {
        match &self.resource {
            S3Resource::Service => "*".into(),
            S3Resource::Bucket(bucket) => bucket.as_str().into(),
            S3Resource::Object(bucket, key) => [bucket.as_str(), "/", key.as_str()].concat().into(),
        }
    }
}

impl Operation {
    /// Returns true if the operation never needs a permission. Then the gateway does not verify the
    /// signature either, if there is one.
    pub const fn needs_no_permission(self) -> bool {
        self.action().is_none()
    }

    /// Returns the permissions that the operation needs: on its resource, on its copy source, and
    /// for the features that its headers use.
    ///
    /// Tags that a copy takes from its source are not known here: see `Permission::copy_tags`. An
    /// ACL that grants only full control to owners needs no permission, because many clients send
    /// it with each request.
    ///
    /// Fails with the faults of the copy source and of repeated parameters.
    pub fn demand(
        self,
        resource: &S3Resource,
        query: &Query,
        fields: Fields<'_>,
    ) -> Result<Demand, Fault> {
        // Each entry names its own version and ETag, so the permissions are known only after the
        // body.
        if self == Operation::DeleteObjects {
            return Ok(Demand::FromBody);
        }
        let version = named_version(query)?;
        let version = version.as_ref();
        let Some(action) = self.versioned_action(version.is_some()) else {
            return Ok(Demand::Nothing);
        };
        // The values are read once and shared by all permissions of the request, so that they
        // cannot differ.
        let facts = RequestFacts::from_request(self, query, fields);
        let own = Permission::on(action, target_resource(self.scope(), resource)).with(&facts);
        let mut all = vec![Permission { version: version.cloned(), ..own }];
        // The body of `PutBucketAcl` and `PutObjectAcl` has its own action, so only operations that
        // set an ACL in addition need `s3:PutObjectAcl` or `s3:PutBucketAcl`.
        let sets_acl = self.makes_an_object() || self == Operation::CreateBucket;
        let acl = if sets_acl { RequestedAcl::parse(fields)? } else { None };
        let acl = acl.is_some_and(|acl| !acl.grants_only_owners());
        match resource {
            S3Resource::Object(bucket, key) => {
                if acl {
                    all.push(Permission::on_object("s3:PutObjectAcl", bucket, key).with(&facts));
                }
                all.extend(self.related_permissions(bucket, key, version, query, fields)?);
                // Tags and locks of a new object have their own actions, so that a policy can allow
                // uploads without them.
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

    /// Returns the permissions of an operation on an object for other objects that it reads or
    /// changes.
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
            // A malformed part number is refused before the permission on the source is checked, as
            // in S3.
            if let Some(number) = query.get("partNumber")? {
                PartNumber::parse(number)?;
            }
            let value = fields.get("x-amz-copy-source")?.unwrap_or_default();
            let source = CopySource::parse(value)?;
            all.push(Permission::read(&source.bucket, &source.key, source.version.as_ref()));
        }
        if self == Operation::RenameObject {
            let source = RenameObject::source(bucket, fields)?;
            // The rename deletes the source under the source's own preconditions.
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

    /// Returns the permission to read the object if the response reveals properties of the object.
    fn read_permissions(
        self,
        bucket: &BucketName,
        key: &ObjectKey,
        version: Option<&VersionId>,
        fields: Fields<'_>,
    ) -> Result<Vec<Permission>, Fault> {
        let mut all = Vec::new();
        if self == Operation::PutObject && fields.has(WRITE_OFFSET) {
            // The response to an append contains the object's length and checksums.
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

    /// Returns true if the request body has values that policy conditions compare, so that the
    /// permissions are checked again after it has been read.
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

    /// Returns true if the operation uploads a part of a multipart upload or completes it. The
    /// request that began the upload defines the properties of the object.
    pub const fn continues_upload(self) -> bool {
        matches!(
            self,
            Operation::UploadPart | Operation::UploadPartCopy | Operation::CompleteMultipartUpload
        )
    }

    /// Returns true if the request headers set an access control list.
    pub(super) const fn sets_an_acl(self) -> bool {
        matches!(self, Operation::CreateBucket | Operation::PutBucketAcl | Operation::PutObjectAcl)
    }

    /// Returns true if the request parameters select the keys of a listing.
    pub(super) const fn lists_keys(self) -> bool {
        matches!(
            self,
            Operation::ListObjects | Operation::ListObjectsV2 | Operation::ListObjectVersions
        )
    }

    /// Returns true if the request headers set properties of a new object.
    pub(super) const fn makes_an_object(self) -> bool {
        matches!(
            self,
            Operation::PutObject | Operation::CopyObject | Operation::CreateMultipartUpload
        )
    }

    /// Returns true if `If-Match` is a precondition on the object that the operation writes or
    /// deletes.
    pub(super) const fn has_write_precondition(self) -> bool {
        matches!(
            self,
            Operation::PutObject
                | Operation::CopyObject
                | Operation::CompleteMultipartUpload
                | Operation::DeleteObject
        )
    }

    /// Returns the pairs of actions that S3 has for one operation: the action for the current
    /// version, and the action for a named version.
    pub fn versioned_actions() -> Vec<(&'static str, &'static str)> {
        let actions = |one: &Operation| one.action().zip(one.versioned_action(true));
        let mut pairs: Vec<_> = Operation::ALL.iter().filter_map(actions).collect();
        pairs.retain(|(current, versioned)| current != versioned);
        // `HeadObject` has the same actions as `GetObject`.
        pairs.dedup();
        pairs
    }
}

/// Returns the object version that a request names; `None` for the current one. A malformed version
/// is returned as text, because the operation refuses it later, after the permission check.
fn named_version(query: &Query) -> Result<Option<VersionId>, Fault> {
    let text = query.get("versionId")?;
    Ok(text.map(|text| VersionId::parse(text).unwrap_or(VersionId::Other(text.to_owned()))))
}

/// Headers of a new object that need a permission of their own, each with its action.
const NEW_OBJECT_ACTIONS: [(&str, &str); 3] = [
    ("x-amz-tagging", "s3:PutObjectTagging"),
    ("x-amz-object-lock-mode", "s3:PutObjectRetention"),
    ("x-amz-object-lock-legal-hold", "s3:PutObjectLegalHold"),
];

/// Returns the permissions for the settings of a new bucket. `acl` is true if the request sets an
/// ACL.
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

/// Returns the resource that the operation acts on. For example, the resource of a listing of the
/// uploads of a key is the bucket, although the request path contains a key.
fn target_resource(scope: Scope, resource: &S3Resource) -> S3Resource {
    match (scope, resource) {
        (Scope::Bucket, S3Resource::Object(bucket, _)) => S3Resource::Bucket(bucket.clone()),
        (Scope::Service | Scope::Bucket | Scope::Object, resource) => resource.clone(),
    }
}
