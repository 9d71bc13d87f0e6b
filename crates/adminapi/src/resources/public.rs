//! The access of anonymous clients to a bucket, as one switch.
//!
//! The switch is a part of the bucket policy: statements whose `Sid` begins with `AshlarPublic`.
//! Other statements of the policy stay. For example, `{"access": "download"}` lets each client read
//! all objects, and `{"access": "private"}` removes this right again.

use s3::BucketName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::bucket_documents::BucketDocumentKind;
use crate::etag::IfMatch;
use crate::{Actor, AdminApi, ApiError};

/// The beginning of the `Sid` of each statement that the switch makes.
const SID: &str = "AshlarPublic";

/// The version of policy documents.
const VERSION: &str = "2012-10-17";

/// The access of anonymous clients to a bucket.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct PublicAccess {
    /// The rights of anonymous clients.
    pub access: AnonymousAccess,
}

/// The rights of anonymous clients.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AnonymousAccess {
    /// None.
    Private,
    /// They list the bucket and read its objects.
    Download,
    /// They write objects, and can neither list nor read.
    Upload,
    /// They list, read, write and delete.
    Public,
    /// Other statements of the policy allow something to everyone. A change cannot set this.
    Custom,
}

impl AnonymousAccess {
    /// Returns the values that a change can set.
    pub const SETTABLE: [AnonymousAccess; 4] = [
        AnonymousAccess::Private,
        AnonymousAccess::Download,
        AnonymousAccess::Upload,
        AnonymousAccess::Public,
    ];

    /// Returns the value as JSON has it.
    pub const fn name(self) -> &'static str {
        match self {
            AnonymousAccess::Private => "private",
            AnonymousAccess::Download => "download",
            AnonymousAccess::Upload => "upload",
            AnonymousAccess::Public => "public",
            AnonymousAccess::Custom => "custom",
        }
    }

    /// Returns the actions on the bucket and on its objects.
    fn actions(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            AnonymousAccess::Private | AnonymousAccess::Custom => (&[], &[]),
            AnonymousAccess::Download => {
                (&["s3:GetBucketLocation", "s3:ListBucket"], &["s3:GetObject"])
            }
            AnonymousAccess::Upload => (
                &["s3:GetBucketLocation", "s3:ListBucketMultipartUploads"],
                &["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObject"],
            ),
            AnonymousAccess::Public => (
                &["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
                &[
                    "s3:AbortMultipartUpload",
                    "s3:DeleteObject",
                    "s3:GetObject",
                    "s3:ListMultipartUploadParts",
                    "s3:PutObject",
                ],
            ),
        }
    }

    /// Returns the statements of a bucket policy.
    fn statements(self, bucket: &BucketName) -> Vec<Value> {
        let (on_bucket, on_objects) = self.actions();
        let statement = |part: &str, actions: &[&str], resource: String| {
            json!({
                "Sid": format!("{SID}{part}"),
                "Effect": "Allow",
                "Principal": "*",
                "Action": actions,
                "Resource": resource,
            })
        };
        let mut all = Vec::new();
        if !on_bucket.is_empty() {
            all.push(statement("Bucket", on_bucket, format!("arn:aws:s3:::{bucket}")));
        }
        if !on_objects.is_empty() {
            all.push(statement("Objects", on_objects, format!("arn:aws:s3:::{bucket}/*")));
        }
        all
    }
}

/// Returns true if the switch has made a statement. Another statement with such a `Sid` stays, for
/// example a Deny.
fn is_ours(statement: &Value) -> bool {
    let has = |member: &str, value: &str| statement.get(member).is_some_and(|it| it == value);
    let sid = statement.get("Sid").and_then(Value::as_str);
    sid.is_some_and(|sid| sid.starts_with(SID))
        && has("Effect", "Allow")
        && has("Principal", "*")
        && statement.get("Condition").is_none()
}

/// Returns the statements of a policy. A policy may have one statement that is not in a list.
fn statements(policy: &Value) -> Vec<Value> {
    match policy.get("Statement") {
        Some(Value::Array(all)) => all.clone(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    }
}

/// Returns the access that a policy gives to anonymous clients.
fn access(bucket: &BucketName, policy: Option<&Value>) -> AnonymousAccess {
    let Some(policy) = policy else { return AnonymousAccess::Private };
    let kind = policy::PolicyKind::Bucket { bucket: bucket.as_str(), exists: &|_| true };
    let is_public =
        |text: &str| policy::Policy::parse(text, kind).is_ok_and(|policy| policy.is_public());
    let (ours, others): (Vec<_>, Vec<_>) = statements(policy).into_iter().partition(is_ours);
    let rest = json!({ "Version": VERSION, "Statement": others });
    if !others.is_empty() && is_public(&rest.to_string()) {
        return AnonymousAccess::Custom;
    }
    let known = AnonymousAccess::SETTABLE.into_iter();
    let mut known = known.filter(|access| access.statements(bucket) == ours);
    known.next().unwrap_or(AnonymousAccess::Custom)
}

impl AdminApi {
    /// Returns the access of anonymous clients to a bucket.
    ///
    /// # Errors
    /// `AccessDenied` without `s3:GetBucketPolicy`, `NoSuchBucket`.
    pub async fn public(&self, actor: &Actor<'_>, bucket: &str) -> Result<PublicAccess, ApiError> {
        let name = BucketName::parse(bucket)?;
        let policy = self.document_if_set(actor, bucket, BucketDocumentKind::Policy).await?;
        Ok(PublicAccess { access: access(&name, policy.as_ref()) })
    }

    /// Makes a bucket public or private.
    ///
    /// # Errors
    /// `AccessDenied` without `s3:GetBucketPolicy` and `s3:PutBucketPolicy`, also if the public
    /// access block of the bucket refuses a public policy; `NoSuchBucket`, `BadRequest`, `Changed`.
    pub async fn put_public(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        wanted: PublicAccess,
        if_match: &IfMatch,
    ) -> Result<PublicAccess, ApiError> {
        let name = BucketName::parse(bucket)?;
        if wanted.access == AnonymousAccess::Custom {
            let why = "The access \"custom\" follows from other statements of the bucket policy.";
            return Err(ApiError::bad_request(why));
        }
        let kind = BucketDocumentKind::Policy;
        let _alone = self.lock_bucket(bucket).await;
        let policy = self.document_if_set(actor, bucket, kind).await?;
        if_match.check(&PublicAccess { access: access(&name, policy.as_ref()) })?;
        let mut policy = policy.unwrap_or_else(|| json!({ "Version": VERSION }));
        let mut all = statements(&policy);
        all.retain(|statement| !is_ours(statement));
        all.extend(wanted.access.statements(&name));
        if all.is_empty() {
            self.remove_document(actor, bucket, kind).await?;
        } else {
            policy["Statement"] = Value::Array(all);
            self.write_document(actor, bucket, kind, &policy).await?;
        }
        Ok(wanted)
    }
}
