//! The default encryption of a bucket.
//!
//! For example, after `PutBucketEncryption` with `AES256`, each new object of the bucket is
//! encrypted under a key of the volume, and so is each file that a mount creates there. Existing
//! objects stay as they are.

use bytes::Bytes;
use http::StatusCode;
use record::{BucketConfig, BucketConfigKind, Encryption};
use s3::encryption::{BucketEncryption, DefaultEncryption};
use s3::xml::XmlLimits;
use s3::{Code, Fault};

use super::bucket_access::{absent, config};
use crate::call::Call;
use crate::encryption::default_kms_key;
use crate::http::HttpBody;
use crate::receive::required_document;
use crate::response::S3Response;
use crate::translate;

pub(super) async fn get(call: &Call<'_>) -> Result<S3Response, Fault> {
    let found = config(call, BucketConfigKind::Encryption).await?;
    let found =
        found.ok_or_else(|| absent(call, Code::ServerSideEncryptionConfigurationNotFoundError))?;
    let shown = BucketEncryption::parse(&found.bytes)?.to_xml();
    Ok(S3Response::xml(StatusCode::OK, shown))
}

/// Sets the default. Unlike S3, it refuses a key that the key management service does not know or
/// does not allow, because each later PUT would fail.
pub(super) async fn put(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, XmlLimits::SMALL.bytes).await?;
    let requested = BucketEncryption::parse(&document)?;
    let mode = match &requested.default {
        Some(DefaultEncryption::S3) => Some(Encryption::S3),
        Some(DefaultEncryption::Kms(Some(key))) => Some(Encryption::Kms(key.clone())),
        Some(DefaultEncryption::Kms(None)) => Some(Encryption::Kms(default_kms_key(call)?)),
        // The document only says whether keys of clients are blocked.
        None => None,
    };
    if mode.is_some() {
        call.volume.content_keys(mode.as_ref()).await.map_err(translate::fault)?;
    }
    let (name, bytes) = (call.bucket()?, Bytes::from(requested.to_xml()));
    let config = BucketConfig { bytes };
    let set =
        call.volume.set_default_encryption(call.named_bucket()?, Some((&config, mode.as_ref())));
    set.await.map_err(|error| translate::bucket_fault(name, error))?;
    Ok(S3Response::empty(StatusCode::OK))
}

pub(super) async fn delete(call: &Call<'_>) -> Result<S3Response, Fault> {
    let name = call.bucket()?;
    let set = call.volume.set_default_encryption(call.named_bucket()?, None);
    set.await.map_err(|error| translate::bucket_fault(name, error))?;
    Ok(S3Response::empty(StatusCode::NO_CONTENT))
}
