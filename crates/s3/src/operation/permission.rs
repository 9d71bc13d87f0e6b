//! The permissions that a request needs: every action on every resource that it touches.

use std::borrow::Cow;

use super::{Operation, S3Resource, Scope};
use crate::Fault;
use crate::acl::AskedAcl;
use crate::conditions::{ETagList, StatPrecondition, WritePrecondition};
use crate::name::{BucketName, CopySource, ObjectKey};
use crate::object_lock;
use crate::request::{Fields, PartNumber, Query, RenameObject, WRITE_OFFSET};

/// An action on a resource, as policies speak of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The action: `s3:GetObject`.
    pub action: &'static str,
    /// What it is done to.
    pub resource: S3Resource,
}

/// What a request demands before anything is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: everybody may send the request, and its credentials are not looked at.
    Nothing,
    /// All of these; never empty.
    All(Vec<Permission>),
    /// What the body says: of `DeleteObjects` one for each key, see `Permission::delete`; of
    /// `PutObjectTagging` one that policies may tie to the tags.
    InBody,
}

impl Permission {
    /// To read an object, or one version of it: two actions, of which a request asks for one.
    ///
    /// A request that names a version, `null` included, "must have the `s3:GetObjectVersion`
    /// permission …; the `s3:GetObject` permission is not required in this scenario" (S3's API
    /// reference, `GetObject`, `versionId`).
    pub fn read(bucket: &BucketName, key: &ObjectKey, versioned: bool) -> Permission {
        let action = if versioned { "s3:GetObjectVersion" } else { "s3:GetObject" };
        Permission::on_object(action, bucket, key)
    }

    /// To delete an object, or one version of it.
    pub fn delete(bucket: &BucketName, key: &ObjectKey, versioned: bool) -> Permission {
        let action = if versioned { "s3:DeleteObjectVersion" } else { "s3:DeleteObject" };
        Permission::on_object(action, bucket, key)
    }

    /// To make a write depend on an object's entity tag, or its size or time (`stat`). A client that
    /// may not read the object could otherwise find them out by trying. Whether there is an object
    /// at all, `*`, every writer may ask.
    ///
    /// S3's user guide says so under "Enforce conditional writes" (`If-Match` needs
    /// `s3:GetObject`, `If-None-Match: *` does not) and "How to perform conditional deletes" ("with an
    /// `ETag` value you must have the `s3:DeleteObject` and `s3:GetObject` permissions").
    pub fn to_compare(
        condition: &WritePrecondition,
        stat: bool,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Option<Permission> {
        match condition {
            _ if stat => Some(Permission::read(bucket, key, false)),
            WritePrecondition::IfMatch(ETagList::Tags(_))
            | WritePrecondition::IfNoneMatch(ETagList::Tags(_)) => {
                Some(Permission::read(bucket, key, false))
            }
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
    pub fn carry_tags(
        source: &CopySource,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> [Permission; 2] {
        [
            Permission::read_tags(&source.bucket, &source.key, source.version.is_some()),
            Permission::on_object("s3:PutObjectTagging", bucket, key),
        ]
    }

    /// To read the tags of an object, or of one of its versions.
    pub fn read_tags(bucket: &BucketName, key: &ObjectKey, versioned: bool) -> Permission {
        let action = if versioned { "s3:GetObjectVersionTagging" } else { "s3:GetObjectTagging" };
        Permission::on_object(action, bucket, key)
    }

    /// To replace the tags of an object, or of one of its versions.
    pub fn write_tags(bucket: &BucketName, key: &ObjectKey, versioned: bool) -> Permission {
        let action = if versioned { "s3:PutObjectVersionTagging" } else { "s3:PutObjectTagging" };
        Permission::on_object(action, bucket, key)
    }

    /// Any action on an object.
    pub fn on_object(action: &'static str, bucket: &BucketName, key: &ObjectKey) -> Permission {
        Permission { action, resource: S3Resource::Object(bucket.clone(), key.clone()) }
    }

    /// Any action on a bucket.
    pub fn on_bucket(action: &'static str, bucket: &BucketName) -> Permission {
        Permission { action, resource: S3Resource::Bucket(bucket.clone()) }
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
    pub const fn is_open(self) -> bool {
        self.action().is_none()
    }

    /// The permissions that the operation needs: on its resource, on its copy source, and for what
    /// its headers add.
    ///
    /// Tags that a copy carries over from its source are not known here: see
    /// `Permission::carry_tags`. A list that grants nothing but full control to owners demands
    /// nothing, because many clients send it with everything.
    ///
    /// Faults: those of the copy source and of repeated parameters.
    pub fn demand(
        self,
        resource: &S3Resource,
        query: &Query,
        fields: Fields<'_>,
    ) -> Result<Demand, Fault> {
        if matches!(self, Operation::DeleteObjects | Operation::PutObjectTagging) {
            return Ok(Demand::InBody);
        }
        let versioned = query.has("versionId");
        let Some(action) = self.versioned_action(versioned) else { return Ok(Demand::Nothing) };
        let mut all = vec![Permission { action, resource: scoped(self.scope(), resource) }];
        let acl = match self {
            Operation::PutObject
            | Operation::CopyObject
            | Operation::CreateMultipartUpload
            | Operation::CreateBucket => AskedAcl::parse(fields)?,
            _ => None,
        };
        let acl = acl.is_some_and(|acl| !acl.is_harmless());
        let (bucket, key) = match resource {
            S3Resource::Object(bucket, key) => (bucket, key),
            S3Resource::Bucket(bucket) if self == Operation::CreateBucket => {
                all.extend(of_new_bucket(bucket, acl, fields)?);
                return Ok(Demand::All(all));
            }
            S3Resource::Bucket(_) | S3Resource::Service => return Ok(Demand::All(all)),
        };
        if acl {
            all.push(Permission::on_object("s3:PutObjectAcl", bucket, key));
        }
        match self {
            Operation::GetObjectAttributes => all.push(Permission::read(bucket, key, versioned)),
            Operation::CopyObject | Operation::UploadPartCopy => {
                // What is wrong with it is said before the source is looked at.
                if let Some(number) = query.get("partNumber")? {
                    PartNumber::parse(number)?;
                }
                let value = fields.get("x-amz-copy-source")?.unwrap_or_default();
                let source = CopySource::parse(value)?;
                let versioned = source.version.is_some();
                all.push(Permission::read(&source.bucket, &source.key, versioned));
            }
            Operation::RenameObject => {
                let source = RenameObject::source(bucket, fields)?;
                all.push(Permission::read(bucket, &source, false));
                all.push(Permission::delete(bucket, &source, false));
                if RenameObject::looks_at_target(fields) {
                    all.push(Permission::read(bucket, key, false));
                }
            }
            _ => {}
        }
        if self.makes_an_object() {
            let headers = OF_NEW_OBJECT.iter().filter(|(header, _)| fields.has(header));
            all.extend(headers.map(|(_, action)| Permission::on_object(action, bucket, key)));
        }
        if self == Operation::PutObject && fields.has(WRITE_OFFSET) {
            // What the answer says of the object, its length and checksums, only readers may know.
            all.push(Permission::read(bucket, key, false));
        }
        if self.compares() {
            let condition = WritePrecondition::asked(fields)?;
            let stat = self == Operation::DeleteObject
                && StatPrecondition::HEADERS.iter().any(|name| fields.has(name));
            all.extend(Permission::to_compare(&condition, stat, bucket, key));
        }
        Ok(Demand::All(all))
    }

    /// Whether its headers say what is kept with a new object.
    const fn makes_an_object(self) -> bool {
        matches!(
            self,
            Operation::PutObject | Operation::CopyObject | Operation::CreateMultipartUpload
        )
    }

    /// Whether `If-Match` is a condition on what the operation writes.
    const fn compares(self) -> bool {
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
        Operation::VERSIONED.iter().filter_map(actions).collect()
    }

    /// The operations that S3 knows by another action where they name a version.
    const VERSIONED: &'static [Operation] = &[
        Operation::GetObject,
        Operation::DeleteObject,
        Operation::GetObjectAttributes,
        Operation::GetObjectTagging,
        Operation::PutObjectTagging,
        Operation::DeleteObjectTagging,
        Operation::GetObjectAcl,
        Operation::PutObjectAcl,
    ];

    pub(crate) const fn versioned_action(self, versioned: bool) -> Option<&'static str> {
        if !versioned {
            return self.action();
        }
        match self {
            Operation::GetObject | Operation::HeadObject => Some("s3:GetObjectVersion"),
            Operation::DeleteObject => Some("s3:DeleteObjectVersion"),
            Operation::GetObjectAttributes => Some("s3:GetObjectVersionAttributes"),
            Operation::GetObjectTagging => Some("s3:GetObjectVersionTagging"),
            Operation::PutObjectTagging => Some("s3:PutObjectVersionTagging"),
            Operation::DeleteObjectTagging => Some("s3:DeleteObjectVersionTagging"),
            Operation::GetObjectAcl => Some("s3:GetObjectVersionAcl"),
            Operation::PutObjectAcl => Some("s3:PutObjectVersionAcl"),
            _ => self.action(),
        }
    }
}

/// Headers of a new object that need a permission of their own.
const OF_NEW_OBJECT: [(&str, &str); 3] = [
    ("x-amz-tagging", "s3:PutObjectTagging"),
    ("x-amz-object-lock-mode", "s3:PutObjectRetention"),
    ("x-amz-object-lock-legal-hold", "s3:PutObjectLegalHold"),
];

/// The permissions that what a new bucket is set to needs besides; `acl` says whether it has a list.
fn of_new_bucket(
    bucket: &BucketName,
    acl: bool,
    fields: Fields<'_>,
) -> Result<Vec<Permission>, Fault> {
    let mut actions = Vec::new();
    if acl {
        actions.push("s3:PutBucketAcl");
    }
    if object_lock::asks_for_object_lock(fields)? {
        actions.extend(["s3:PutBucketObjectLockConfiguration", "s3:PutBucketVersioning"]);
    }
    if fields.has("x-amz-object-ownership") {
        actions.push("s3:PutBucketOwnershipControls");
    }
    Ok(actions.into_iter().map(|action| Permission::on_bucket(action, bucket)).collect())
}

/// What an operation is about: a request names more than that where it lists the uploads of a key.
fn scoped(scope: Scope, resource: &S3Resource) -> S3Resource {
    match (scope, resource) {
        (Scope::Bucket, S3Resource::Object(bucket, _)) => S3Resource::Bucket(bucket.clone()),
        (_, resource) => resource.clone(),
    }
}
