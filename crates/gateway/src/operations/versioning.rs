//! The versioning state of a bucket: off, enabled or suspended.

use http::StatusCode;
use record::Versioning;
use s3::versioning::{VersioningConfiguration, VersioningStatus};
use s3::xml::XmlLimits;
use s3::{Code, Fault};
use volume::{BucketChange, FsError, VolumeError};

use super::bucket;
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::required_document;
use crate::response::S3Response;
use crate::translate;

pub(super) async fn get(call: &Call<'_>) -> Result<S3Response, Fault> {
    let status = match bucket::found(call).await?.versioning {
        // A trash keeps old objects for the operator only; S3 clients see no versions.
        Versioning::Off | Versioning::Trash => None,
        Versioning::Enabled => Some(VersioningStatus::Enabled),
        Versioning::Suspended => Some(VersioningStatus::Suspended),
    };
    Ok(S3Response::xml(StatusCode::OK, VersioningConfiguration { status }.to_xml()))
}

pub(super) async fn put(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, XmlLimits::SMALL.bytes).await?;
    let versioning = match VersioningConfiguration::parse(&document)?.status {
        Some(VersioningStatus::Enabled) => Versioning::Enabled,
        Some(VersioningStatus::Suspended) => Versioning::Suspended,
        None => return Err(Code::MalformedXML.into()),
    };
    let name = call.bucket()?;
    let change = BucketChange::Versioning(versioning);
    match call.volume.set_bucket(call.named_bucket()?, change).await {
        Ok(()) => Ok(S3Response::empty(StatusCode::OK)),
        Err(VolumeError::Fs(FsError::Locked)) => Err(Fault::because(
            Code::InvalidBucketState,
            "An Object Lock configuration is present on this bucket, so the versioning state cannot \
             be changed.",
        )),
        Err(VolumeError::Fs(FsError::HasTrash)) => Err(Fault::new(Code::InvalidBucketState)
            .detail("A bucket has either a trash or versions. Turn the trash off with `ashlar bucket trash --none`.")),
        Err(error) => Err(translate::bucket_fault(name, error)),
    }
}
