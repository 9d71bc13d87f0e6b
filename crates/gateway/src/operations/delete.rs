//! Deletes.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use http::StatusCode;
use s3::conditions::{StatPrecondition, WritePrecondition, failed};
use s3::operation::Permission;
use s3::request::{DeleteObject, DeleteObjects, Deletion};
use s3::response::{DeleteError, DeleteObjectsOutput, DeletedObject};
use s3::{Code, Fault, ObjectKey};
use volume::{FsError, RemoveCondition, RemovedKey, RemovedVersion, VersionRef, VolumeError};

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
    let asks_to_bypass = locks::asks_to_bypass(call)?;
    if let Some(version) = translate::version(request.version.as_ref())? {
        let named = request.version.as_ref();
        let bypasses = asks_to_bypass && locks::may_bypass(call, key, named, None).await?;
        return version_of(call, &request, key, version, bypasses).await;
    }
    let condition = condition(&request.condition, request.stat);
    let keys = vec![(key.as_str().as_bytes().to_vec(), condition)];
    let bucket = call.named_bucket()?;
    let removed = call.volume.delete(bucket, keys).await;
    let mut removed = removed.map_err(|error| refusal(error, &request.condition, request.stat))?;
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
    let condition = condition(&request.condition, request.stat);
    let removed = remove_version(call, key, version, condition.as_ref(), bypasses).await?;
    let removed = removed.map_err(|error| refusal(error, &request.condition, request.stat))?;
    let mut response = S3Response::empty(StatusCode::NO_CONTENT);
    if removed.was_marker {
        response.set_named("x-amz-delete-marker", "true");
    }
    response.version(Some(version));
    Ok(response)
}

/// Removes one version for good, if the condition holds. The content of a version never changes, so
/// a condition that holds now also holds when the version is removed.
async fn remove_version(
    call: &Call<'_>,
    key: &ObjectKey,
    version: VersionRef,
    condition: Option<&RemoveCondition>,
    bypasses: bool,
) -> Result<Result<RemovedVersion, VolumeError>, Fault> {
    let (bucket, key) = (call.named_bucket()?, key.as_str().as_bytes());
    if let Some(condition) = condition {
        match call.volume.stat_version(bucket, key, Some(version)).await {
            Ok(found) if condition.accepts(&found.inode) => {}
            Ok(_) => return Ok(Err(VolumeError::Fs(FsError::PreconditionFailed))),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(call.volume.delete_version(bucket, key, version, bypasses).await)
}

pub(super) async fn objects(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, s3::xml::XmlLimits::LARGE.bytes).await?;
    let request = DeleteObjects::parse(&document)?;
    let bucket = call.bucket()?;
    let mut output = DeleteObjectsOutput::default();
    let mut allowed: Vec<(&Deletion, bool)> = Vec::with_capacity(request.deletions.len());
    let asks_to_bypass = locks::asks_to_bypass(call)?;
    let mut work = BoundedWork::default();
    for deletion in &request.deletions {
        if work.is_exhausted() {
            let why = "The policies take too long to evaluate for this many keys.";
            output.errors.push(error(deletion, Fault::new(Code::SlowDown).detail(why)));
            continue;
        }
        let decide = async {
            call.demand(&Permission::of_deletion(bucket, deletion)).await?;
            // Each version has a lock of its own, and the right to go past it is one on the object.
            let version = deletion.version.as_ref();
            Ok(asks_to_bypass
                && version.is_some()
                && locks::may_bypass(call, &deletion.key, version, None).await?)
        };
        match work.run(Box::pin(decide)).await {
            Err(fault) => output.errors.push(error(deletion, fault)),
            Ok(_) if translate::version(deletion.version.as_ref()).is_err() => {
                // Here, and only here, S3 says of an id that is none that it is not there.
                output.errors.push(error(deletion, Code::NoSuchVersion.into()));
            }
            Ok(bypasses) => allowed.push((deletion, bypasses)),
        }
    }
    let removed = remove(call, &allowed).await?;
    for ((deletion, _), removed) in allowed.into_iter().zip(removed) {
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

/// Removes keys and versions. Each deletion says whether it goes past a retention in governance
/// mode. Returns for each the marker that was made or removed, if one was.
async fn remove(
    call: &Call<'_>,
    deletions: &[(&Deletion, bool)],
) -> Result<Vec<Result<Option<VersionRef>, VolumeError>>, Fault> {
    let bucket = call.named_bucket()?;
    let (mut keys, mut versions) = (Vec::new(), Vec::new());
    for (place, &(deletion, bypasses)) in deletions.iter().enumerate() {
        match translate::version(deletion.version.as_ref())? {
            None => {
                let key = deletion.key.as_str().as_bytes().to_vec();
                keys.push((place, key, condition(&deletion.condition, deletion.stat)));
            }
            Some(version) => versions.push((place, deletion, version, bypasses)),
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
    let remove = async |(place, deletion, version, bypasses): (usize, &Deletion, _, bool)| {
        let key = &deletion.key;
        let condition = condition(&deletion.condition, deletion.stat);
        let removed = remove_version(call, key, version, condition.as_ref(), bypasses).await?;
        Ok::<_, Fault>((place, removed.map(|removed| removed.was_marker.then_some(version))))
    };
    let removed = futures::stream::iter(versions).map(remove).buffer_unordered(VERSIONS_AT_ONCE);
    answers.extend(removed.try_collect::<Vec<_>>().await?);
    Ok(answers.into_values().collect())
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
        object_tags: None,
    })
}

/// Where several conditions were stated, the first of them is named, whichever failed.
fn refusal(error: VolumeError, condition: &WritePrecondition, stat: StatPrecondition) -> Fault {
    let tags = *condition != WritePrecondition::None;
    match error {
        VolumeError::Fs(FsError::PreconditionFailed) => {
            failed(stat.name().filter(|_| !tags).unwrap_or("If-Match"))
        }
        VolumeError::Fs(FsError::Contended) if tags || stat.is_some() => {
            Code::ConditionalRequestConflict.into()
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

#[cfg(test)]
mod tests;
