//! Configurations of buckets that S3 keeps as documents: policy, CORS, lifecycle, tags, object
//! lock, public access block and versioning.
//!
//! Each read and change is an operation of S3 in the name of the sender. For example,
//! `PUT /buckets/photos/cors` becomes `PUT /photos?cors` with an XML document.

use bytes::Bytes;
use http::Method;
use s3::xml::{Element, XmlLimits};
use serde_json::{Map, Value};

use crate::etag::IfMatch;
use crate::s3_call::S3Call;
use crate::{Actor, AdminApi, ApiError, bucket_json};

/// A configuration of a bucket that is one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketDocumentKind {
    /// The bucket policy, in the JSON of AWS.
    Policy,
    /// The CORS rules.
    Cors,
    /// The lifecycle rules.
    Lifecycle,
    /// The tags.
    Tags,
    /// The object lock with its default retention.
    ObjectLock,
    /// The public access block.
    PublicAccessBlock,
    /// The versioning state.
    Versioning,
}

impl BucketDocumentKind {
    /// Returns the parameter of S3's query that selects the document.
    const fn parameter(self) -> &'static str {
        match self {
            BucketDocumentKind::Policy => "policy",
            BucketDocumentKind::Cors => "cors",
            BucketDocumentKind::Lifecycle => "lifecycle",
            BucketDocumentKind::Tags => "tagging",
            BucketDocumentKind::ObjectLock => "object-lock",
            BucketDocumentKind::PublicAccessBlock => "publicAccessBlock",
            BucketDocumentKind::Versioning => "versioning",
        }
    }

    /// Returns the root element of the XML document; `None` if the document is JSON.
    const fn root(self) -> Option<&'static str> {
        match self {
            BucketDocumentKind::Policy => None,
            BucketDocumentKind::Cors => Some("CORSConfiguration"),
            BucketDocumentKind::Lifecycle => Some("LifecycleConfiguration"),
            BucketDocumentKind::Tags => Some("Tagging"),
            BucketDocumentKind::ObjectLock => Some("ObjectLockConfiguration"),
            BucketDocumentKind::PublicAccessBlock => Some("PublicAccessBlockConfiguration"),
            BucketDocumentKind::Versioning => Some("VersioningConfiguration"),
        }
    }
}

impl AdminApi {
    /// Returns a configuration of a bucket.
    ///
    /// # Errors
    /// Those of the operation of S3, for example `NoSuchBucketPolicy`.
    pub async fn document(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        kind: BucketDocumentKind,
    ) -> Result<Value, ApiError> {
        let call = S3Call::on_bucket(Method::GET, bucket, Some(kind.parameter()));
        let reply = self.s3(actor, &call, Bytes::new()).await?;
        let unreadable = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, ?kind, "cannot read a bucket document of the gateway");
            ApiError::from(s3::Code::InternalError)
        };
        match kind.root() {
            None => serde_json::from_slice(&reply.body).map_err(|error| unreadable(&error)),
            Some(root) => {
                let element = Element::parse(&reply.body, root, XmlLimits::SMALL)
                    .map_err(|fault| unreadable(&fault.message))?;
                if element.children().is_empty() {
                    return Ok(Value::Object(Map::new()));
                }
                Ok(bucket_json::from_xml(&element))
            }
        }
    }

    /// Returns a configuration of a bucket, or `None` if the bucket has none.
    ///
    /// # Errors
    /// Those of [`AdminApi::document`], except those of an absent configuration.
    pub async fn document_if_set(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        kind: BucketDocumentKind,
    ) -> Result<Option<Value>, ApiError> {
        match self.document(actor, bucket, kind).await {
            Ok(document) => Ok(Some(document)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces a configuration of a bucket. Returns it as it is stored.
    ///
    /// # Errors
    /// Those of the operation of S3; `Changed` if `if_match` names another state.
    pub async fn put_document(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        kind: BucketDocumentKind,
        document: &Value,
        if_match: &IfMatch,
    ) -> Result<Value, ApiError> {
        let _alone = self.lock_bucket(bucket).await;
        if if_match.is_some() {
            if_match.check(&self.document_if_set(actor, bucket, kind).await?)?;
        }
        self.write_document(actor, bucket, kind, document).await
    }

    /// Replaces a configuration of a bucket. The caller holds the lock of the bucket.
    pub(crate) async fn write_document(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        kind: BucketDocumentKind,
        document: &Value,
    ) -> Result<Value, ApiError> {
        let text = match kind.root() {
            None => document.to_string(),
            Some(root) => bucket_json::to_xml(root, document)?,
        };
        let call = S3Call::on_bucket(Method::PUT, bucket, Some(kind.parameter()));
        self.s3(actor, &call, text.into()).await?;
        // The sender may have the permission to write the document and none to read it.
        match self.document(actor, bucket, kind).await {
            Ok(stored) => Ok(stored),
            Err(error) if error.status == http::StatusCode::FORBIDDEN => Ok(document.clone()),
            Err(error) => Err(error),
        }
    }

    /// Removes a configuration of a bucket.
    ///
    /// # Errors
    /// Those of [`AdminApi::put_document`].
    pub async fn delete_document(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        kind: BucketDocumentKind,
        if_match: &IfMatch,
    ) -> Result<(), ApiError> {
        let _alone = self.lock_bucket(bucket).await;
        if if_match.is_some() {
            if_match.check(&self.document_if_set(actor, bucket, kind).await?)?;
        }
        self.remove_document(actor, bucket, kind).await
    }

    /// Removes a configuration of a bucket. The caller holds the lock of the bucket.
    pub(crate) async fn remove_document(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        kind: BucketDocumentKind,
    ) -> Result<(), ApiError> {
        let call = S3Call::on_bucket(Method::DELETE, bucket, Some(kind.parameter()));
        self.s3(actor, &call, Bytes::new()).await.map(drop)
    }
}

/// Returns true for the errors by which S3 says that a bucket has no such configuration.
fn is_absent(error: &ApiError) -> bool {
    const ABSENT: [&str; 6] = [
        "NoSuchBucketPolicy",
        "NoSuchCORSConfiguration",
        "NoSuchLifecycleConfiguration",
        "NoSuchTagSet",
        "ObjectLockConfigurationNotFoundError",
        "NoSuchPublicAccessBlockConfiguration",
    ];
    ABSENT.contains(&error.code.as_ref())
}
