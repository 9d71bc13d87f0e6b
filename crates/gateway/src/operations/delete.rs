//! Deletes.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use http::StatusCode;
use s3::conditions::{StatPrecondition, WritePrecondition, failed};
use s3::operation::Permission;
use s3::request::{DeleteObject, DeleteObjects, Deletion};
use s3::response::{DeleteError, DeleteObjectsOutput, DeletedObject};
use s3::{BucketName, Code, Fault, ObjectKey};
use volume::{FsError, RemoveCondition, RemovedKey, VersionRef, VolumeError};

use super::locks;
use crate::bounded_work::BoundedWork;
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::required_document;
use crate::response::S3Response;
use crate::translate;

// Every key that can be stored can be deleted.
const _: () = assert!(s3::ObjectKey::SLASHES_MAX <= volume::DIRECTORIES_MAX);

pub(super) async fn object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = DeleteObject::parse(&call.arguments())?;
    let (_, key) = call.object()?;
    let bypasses = locks::bypasses(call).await?;
    if let Some(version) = translate::version(request.version.as_ref())? {
        return version_of(call, &request, key, version, bypasses).await;
    }
    let condition = condition(&request.condition, request.stat);
    let keys = vec![(key.as_str().as_bytes().to_vec(), condition)];
    let bucket = call.named_bucket()?;
    let mut removed = call.volume.delete(bucket, keys).await.map_err(translate::fault)?;
    match removed.pop() {
        Some(Err(error)) => Err(refusal(error, &request.condition, request.stat)),
        Some(Ok(RemovedKey { marker: Some(marker), .. })) => {
            let mut response = S3Response::empty(StatusCode::NO_CONTENT);
            response.set_named("x-amz-delete-marker", "true");
            response.version(Some(marker));
            Ok(response)
        }
        Some(Ok(_)) | None => Ok(S3Response::empty(StatusCode::NO_CONTENT)),
    }
}

/// Removes one version for good.
async fn version_of(
    call: &Call<'_>,
    request: &DeleteObject,
    key: &ObjectKey,
    version: VersionRef,
    bypasses: bool,
) -> Result<S3Response, Fault> {
    let (bucket, key) = (call.named_bucket()?, key.as_str().as_bytes());
    if let Some(condition) = condition(&request.condition, request.stat) {
        // The content of a version never changes, so what holds now holds when it goes.
        let found = call.volume.stat_version(bucket, key, Some(version)).await;
        if !condition.accepts(&found.map_err(translate::fault)?.inode) {
            let error = VolumeError::Fs(FsError::PreconditionFailed);
            return Err(refusal(error, &request.condition, request.stat));
        }
    }
    let removed = call.volume.delete_version(bucket, key, version, bypasses).await;
    let removed = removed.map_err(translate::fault)?;
    let mut response = S3Response::empty(StatusCode::NO_CONTENT);
    if removed.was_marker {
        response.set_named("x-amz-delete-marker", "true");
    }
    response.version(Some(version));
    Ok(response)
}

pub(super) async fn objects(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, s3::xml::XmlLimits::LARGE.bytes).await?;
    let request = DeleteObjects::parse(&document)?;
    let bucket = call.bucket()?;
    let mut output = DeleteObjectsOutput::default();
    let mut allowed: Vec<&Deletion> = Vec::with_capacity(request.deletions.len());
    let mut work = BoundedWork::default();
    for deletion in &request.deletions {
        if work.is_exhausted() {
            let why = "The policies take too long to evaluate for this many keys.";
            output.errors.push(error(deletion, Fault::new(Code::SlowDown).detail(why)));
        } else if let Err(fault) =
            work.run(Box::pin(call.demand(&permissions(bucket, deletion)))).await
        {
            output.errors.push(error(deletion, fault));
        } else if translate::version(deletion.version.as_ref()).is_err() {
            // Here, and only here, S3 says of an id that is none that it is not there.
            output.errors.push(error(deletion, Code::NoSuchVersion.into()));
        } else {
            allowed.push(deletion);
        }
    }
    let removed = remove(call, &allowed).await?;
    for (deletion, removed) in allowed.into_iter().zip(removed) {
        match removed {
            Ok(_) if request.quiet => {}
            Ok(marker) => output.deleted.push(DeletedObject {
                key: deletion.key.as_str().to_owned(),
                version: deletion.version.as_ref().map(|version| version.as_str().to_owned()),
                delete_marker: marker.map(translate::version_text),
            }),
            Err(why) => {
                let fault = refusal(why, &deletion.condition, deletion.stat);
                output.errors.push(error(deletion, fault));
            }
        }
    }
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

/// Versions that one request has removed at a time.
const VERSIONS_AT_ONCE: usize = 16;

/// Removes keys and versions. Answers for each the marker that was made or removed, if one was.
async fn remove(
    call: &Call<'_>,
    deletions: &[&Deletion],
) -> Result<Vec<Result<Option<VersionRef>, VolumeError>>, Fault> {
    let (bucket, bypasses) = (call.named_bucket()?, locks::bypasses(call).await?);
    let (mut keys, mut versions) = (Vec::new(), Vec::new());
    for (place, deletion) in deletions.iter().enumerate() {
        let key = deletion.key.as_str().as_bytes();
        match translate::version(deletion.version.as_ref())? {
            None => {
                keys.push((place, key.to_vec(), condition(&deletion.condition, deletion.stat)));
            }
            Some(version) => versions.push((place, key, version)),
        }
    }
    let mut answers = BTreeMap::new();
    if !keys.is_empty() {
        let places: Vec<usize> = keys.iter().map(|(place, ..)| *place).collect();
        let keys = keys.into_iter().map(|(_, key, condition)| (key, condition)).collect();
        let removed = call.volume.delete(bucket, keys).await.map_err(translate::fault)?;
        let removed = removed.into_iter().map(|removed| removed.map(|removed| removed.marker));
        answers.extend(places.into_iter().zip(removed));
    }
    let remove = async |(place, key, version): (usize, &[u8], VersionRef)| {
        let removed = call.volume.delete_version(bucket, key, version, bypasses).await;
        (place, removed.map(|removed| removed.was_marker.then_some(version)))
    };
    let removed = futures::stream::iter(versions).map(remove).buffer_unordered(VERSIONS_AT_ONCE);
    answers.extend(removed.collect::<Vec<_>>().await);
    Ok(answers.into_values().collect())
}

/// The permissions that this deletion needs.
fn permissions(bucket: &BucketName, deletion: &Deletion) -> Vec<Permission> {
    let Deletion { key, version, condition, stat } = deletion;
    let mut all = vec![Permission::delete(bucket, key, version.is_some())];
    all.extend(Permission::to_compare(condition, stat.is_some(), bucket, key));
    all
}

fn condition(condition: &WritePrecondition, stat: StatPrecondition) -> Option<RemoveCondition> {
    let tags = match condition {
        WritePrecondition::IfMatch(list) => Some(translate::tag_match(list)),
        WritePrecondition::None
        | WritePrecondition::IfNoneMatchStar
        | WritePrecondition::IfNoneMatch(_) => None,
    };
    let StatPrecondition { size, modified } = stat;
    (tags.is_some() || stat.is_some()).then(|| RemoveCondition {
        tags,
        size,
        changed_seconds: modified.map(time::OffsetDateTime::unix_timestamp),
    })
}

/// Where several conditions were stated, the first of them is named, whichever failed.
fn refusal(error: VolumeError, condition: &WritePrecondition, stat: StatPrecondition) -> Fault {
    let tags = *condition != WritePrecondition::None;
    match error {
        VolumeError::Fs(FsError::PreconditionFailed) => {
            failed(stat.name().filter(|_| !tags).unwrap_or("If-Match"))
        }
        other => translate::fault(other),
    }
}

fn error(deletion: &Deletion, fault: Fault) -> DeleteError {
    DeleteError {
        key: deletion.key.as_str().to_owned(),
        version: deletion.version.as_ref().map(|version| version.as_str().to_owned()),
        fault,
    }
}
