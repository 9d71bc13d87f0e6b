//! `RenameObject`: moves an object to another key, in one commit.
//!
//! A client token makes a retry safe. For example, the response to a rename from `a` to `b` is
//! lost, and then another client creates `a`. The retry finds the token on `b` and succeeds without
//! a second rename.

use http::StatusCode;
use record::RenameToken;
use s3::conditions::{ConditionNames, ReadPreconditions, failed};
use s3::operation::Permission;
use s3::request::RenameObject;
use s3::{Code, CopySource, Fault, ObjectKey};
use sha2::{Digest, Sha256};
use volume::{FsError, Object, ObjectExpectation, RenameConditions, VolumeError};

use crate::call::Call;
use crate::response::S3Response;
use crate::translate::{self, etag, object_condition, time};

/// Renames the object for which the permissions were checked. If another client replaces it before
/// the commit, the loop checks the new object.
pub(super) async fn object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let (bucket, key) = call.object()?;
    let request = RenameObject::parse(&call.arguments(), bucket, key)?;
    let token = request.token.as_deref().map(|token| token_of(token, &request.source));
    let (name, from, to) =
        (call.named_bucket()?, request.source.as_str().as_bytes(), key.as_str().as_bytes());
    let none = ReadPreconditions::default();
    let has_condition = request.source_conditions != none || request.target_conditions != none;
    let mut tries = call.volume.tries();
    loop {
        let source = stat(call, &request.source).await?;
        if let Some(object) = &source
            && let Err(fault) = check_both(call, &request, object).await
        {
            // An earlier attempt of this request may have renamed the object, with a lost response,
            // and another client may have created the old key since. Then the target has this
            // request's token, and the object with the old key is not the one to rename.
            return match stat(call, key).await? {
                Some(target) if token.is_some() && target.file().renamed_by == token => {
                    Ok(S3Response::empty(StatusCode::OK))
                }
                _ => Err(fault),
            };
        }
        let conditions = RenameConditions {
            expected: source.as_ref().map_or(ObjectExpectation::Absent, ObjectExpectation::Object),
            source: object_condition(&request.source_conditions),
            target: object_condition(&request.target_conditions),
        };
        let renamed = tries.run(call.volume.rename(name, from, to, &conditions, token)).await;
        match renamed {
            Ok(()) => return Ok(S3Response::empty(StatusCode::OK)),
            Err(VolumeError::Fs(FsError::OtherObject)) if tries.again(source.as_ref()).await => {}
            Err(VolumeError::Fs(FsError::Contended)) if has_condition => {
                return Err(Code::ConditionalRequestConflict.into());
            }
            Err(VolumeError::Fs(FsError::NoSuchKey)) => {
                let fault = Fault::new(Code::NoSuchKey).with("Key", request.source.as_str());
                return Err(call.hide_absence(bucket, fault).await);
            }
            Err(error) => return Err(translate::fault(error)),
        }
    }
}

/// Returns the object with a key; `None` if there is none.
async fn stat(call: &Call<'_>, key: &ObjectKey) -> Result<Option<Object>, Fault> {
    let bucket = call.bucket()?;
    match call.volume.stat(call.named_bucket()?, key.as_str().as_bytes()).await {
        Ok(object) => Ok(Some(object)),
        Err(VolumeError::Fs(FsError::NoSuchKey | FsError::Deleted(_))) => Ok(None),
        Err(error) => Err(translate::bucket_fault(bucket, error)),
    }
}

/// Fails if the client lacks permissions for the source, or if a condition does not hold. The
/// commit checks the conditions again, but only this check can name the failed condition.
async fn check_both(call: &Call<'_>, request: &RenameObject, object: &Object) -> Result<(), Fault> {
    let (bucket, key) = call.object()?;
    call.check_object(object, (bucket, &request.source, None), call.rules()?)?;
    check_tags(call, object, &request.source).await?;
    check(&request.source_conditions, object, &ConditionNames::RENAME_SOURCE)?;
    if request.target_conditions != ReadPreconditions::default() {
        check_target(&request.target_conditions, stat(call, key).await?.as_ref())?;
    }
    Ok(())
}

fn check(
    conditions: &ReadPreconditions,
    object: &Object,
    names: &ConditionNames,
) -> Result<(), Fault> {
    conditions.check(names, &etag(object.tag()), time(object.changed()))
}

fn check_target(conditions: &ReadPreconditions, target: Option<&Object>) -> Result<(), Fault> {
    match target {
        Some(object) => check(conditions, object, &ConditionNames::OBJECT),
        None if conditions.if_match.is_some() => Err(failed("If-Match")),
        None => Ok(()),
    }
}

/// Fails with `AccessDenied` if the object has tags and the client must not copy them to the new
/// key.
async fn check_tags(call: &Call<'_>, object: &Object, source: &ObjectKey) -> Result<(), Fault> {
    let tags = &object.file().object.tags;
    if tags.is_empty() {
        return Ok(());
    }
    let (bucket, key) = call.object()?;
    let from = CopySource { bucket: bucket.clone(), key: source.clone(), version: None };
    call.require_permissions(&Permission::copy_tags(&from, tags, bucket, key)).await
}

/// Returns the token that identifies a request: a hash of the client token and of the source key.
fn token_of(token: &str, source: &ObjectKey) -> RenameToken {
    let mut bytes = [0; 16];
    let halves = bytes.chunks_exact_mut(8).zip([token, source.as_str()]);
    halves.for_each(|(half, text)| half.copy_from_slice(&Sha256::digest(text)[..8]));
    RenameToken(bytes)
}

#[cfg(test)]
mod tests;
