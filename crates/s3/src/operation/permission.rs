//! The permissions that a request needs: every action on every resource that it touches.

use super::{Operation, S3Resource, Scope};
use crate::Fault;
use crate::conditions::{ETagList, WritePrecondition};
use crate::name::{BucketName, CopySource, ObjectKey};
use crate::request::{Fields, Query};

/// An action on a resource, as policies speak of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The action: `s3:GetObject`.
    pub action: &'static str,
    /// The resource without its `arn:aws:s3:::`: `bucket`, `bucket/key`, or `*` for the service.
    pub resource: String,
    /// What conditions may ask about.
    pub context: Context,
}

/// The parts of a request that a policy's conditions may ask about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// `s3:prefix`: what a listing is limited to.
    pub prefix: Option<String>,
    /// `s3:delimiter`: what a listing groups by.
    pub delimiter: Option<String>,
}

/// What a request demands before anything is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: everybody may send the request, and its credentials are not looked at.
    Nothing,
    /// All of these; never empty.
    All(Vec<Permission>),
    /// `DeleteObjects`: one per key, known once the body is read. See `Permission::delete`.
    EachKey,
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

    /// To make a write depend on an object's entity tag. A client that may not read the object
    /// could otherwise find out its tag by trying. Whether there is an object at all, `*`, every
    /// writer may ask.
    ///
    /// S3's user guide says so under "Enforce conditional writes" (`If-Match` needs
    /// `s3:GetObject`, `If-None-Match` does not) and "How to perform conditional deletes" ("with an
    /// `ETag` value you must have the `s3:DeleteObject` and `s3:GetObject` permissions").
    pub fn to_compare(
        condition: &WritePrecondition,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Option<Permission> {
        match condition {
            WritePrecondition::IfMatch(ETagList::Tags(_)) => {
                Some(Permission::read(bucket, key, false))
            }
            WritePrecondition::IfMatch(ETagList::Any)
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

    /// Any action on an object.
    pub fn on_object(action: &'static str, bucket: &BucketName, key: &ObjectKey) -> Permission {
        Permission { action, resource: format!("{bucket}/{key}"), context: Context::default() }
    }

    /// Any action on a bucket.
    pub fn on_bucket(action: &'static str, bucket: &BucketName) -> Permission {
        Permission { action, resource: bucket.to_string(), context: Context::default() }
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
    /// `Permission::carry_tags`. An ACL header demands nothing, because the ones accepted change
    /// nothing.
    ///
    /// Faults: those of the copy source and of repeated parameters.
    pub fn demand(
        self,
        resource: &S3Resource,
        query: &Query,
        fields: Fields<'_>,
    ) -> Result<Demand, Fault> {
        if self == Operation::DeleteObjects {
            return Ok(Demand::EachKey);
        }
        let versioned = query.has("versionId");
        let Some(action) = self.versioned_action(versioned) else { return Ok(Demand::Nothing) };
        let mut all = vec![Permission {
            action,
            resource: policy_resource(self.scope(), resource),
            context: self.context(query)?,
        }];
        let S3Resource::Object(bucket, key) = resource else { return Ok(Demand::All(all)) };
        match self {
            Operation::GetObjectAttributes => all.push(Permission::read(bucket, key, versioned)),
            Operation::CopyObject | Operation::UploadPartCopy => {
                let value = fields.get("x-amz-copy-source")?.unwrap_or_default();
                let source = CopySource::parse(value)?;
                let versioned = source.version.is_some();
                all.push(Permission::read(&source.bucket, &source.key, versioned));
            }
            _ => {}
        }
        let tags = matches!(
            self,
            Operation::PutObject | Operation::CopyObject | Operation::CreateMultipartUpload
        );
        if tags && fields.has("x-amz-tagging") {
            all.push(Permission::on_object("s3:PutObjectTagging", bucket, key));
        }
        if self.compares() {
            all.extend(Permission::to_compare(&WritePrecondition::asked(fields)?, bucket, key));
        }
        Ok(Demand::All(all))
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

    /// The operations that S3 knows by another action where they name a version.
    pub(crate) const VERSIONED: &'static [Operation] = &[
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

    fn context(self, query: &Query) -> Result<Context, Fault> {
        let lists = matches!(
            self,
            Operation::ListObjects | Operation::ListObjectsV2 | Operation::ListObjectVersions
        );
        if !lists {
            return Ok(Context::default());
        }
        Ok(Context {
            prefix: query.get("prefix")?.map(str::to_owned),
            delimiter: query.get("delimiter")?.map(str::to_owned),
        })
    }
}

fn policy_resource(scope: Scope, resource: &S3Resource) -> String {
    match (scope, resource) {
        (Scope::Object, S3Resource::Object(bucket, key)) => format!("{bucket}/{key}"),
        (_, S3Resource::Bucket(bucket) | S3Resource::Object(bucket, _)) => bucket.to_string(),
        (_, S3Resource::Service) => "*".to_owned(),
    }
}
