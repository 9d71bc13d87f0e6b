//! Deletes objects and versions.
//!
//! If permissions depend on the object, the commit removes only the object for which they were
//! checked; see `change`. For example, a policy denies the deletion of objects with the tag
//! `team=b`. If another client gives the object this tag meanwhile, the deletion is checked again
//! and fails.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use http::StatusCode;
use s3::conditions::{StatPrecondition, WritePrecondition, failed};
use s3::operation::Permission;
use s3::request::{DeleteObject, DeleteObjects, Deletion};
use s3::response::{DeleteError, DeleteObjectsOutput, DeletedObject};
use s3::{Code, Fault};
use volume::{FsError, Object, ObjectExpectation, RemoveCondition, VersionRef, VolumeError};

use super::change::find;
use super::locks;
use crate::bounded_work::BoundedWork;
use crate::call::Call;
use crate::http::HttpBody;
use crate::receive::required_document;
use crate::response::S3Response;
use crate::translate;

// Each key that can be stored can be deleted.
const _: () = assert!(s3::ObjectKey::SLASHES_MAX <= volume::DIRECTORIES_MAX);

pub(super) async fn object(call: &Call<'_>) -> Result<S3Response, Fault> {
    let DeleteObject { version, condition, stat } = DeleteObject::parse(&call.arguments())?;
    let (_, key) = call.object()?;
    let requests_bypass = locks::requests_bypass(call)?;
    let deletion = Deletion { key: key.clone(), version, condition, stat };
    let version = translate::version(deletion.version.as_ref())?;
    let permissions = call.permissions().to_vec();
    let checked = CheckedDeletion::of(call, &deletion, permissions, requests_bypass).await?;
    let marker = checked.remove(call, version).await?;
    let mut response = S3Response::empty(StatusCode::NO_CONTENT);
    if marker.is_some() {
        response.set_named("x-amz-delete-marker", "true");
    }
    response.version(version.or(marker));
    Ok(response)
}

pub(super) async fn objects(call: &Call<'_>, body: HttpBody) -> Result<S3Response, Fault> {
    let document = required_document(call, body, s3::xml::XmlLimits::LARGE.bytes).await?;
    let request = DeleteObjects::parse(&document)?;
    let bucket = call.bucket()?;
    // Before the first removal, so that the access log has the keys if the client disconnects.
    if let Some(deleted) = call.deleted {
        deleted.begin(&request.deletions);
    }
    let mut output = DeleteObjectsOutput::default();
    let mut allowed: Vec<CheckedDeletion<'_>> = Vec::with_capacity(request.deletions.len());
    let requests_bypass = locks::requests_bypass(call)?;
    let mut work = BoundedWork::default();
    for deletion in &request.deletions {
        // The remaining keys get errors, and the client can send them again.
        if work.is_exhausted() {
            let why = "The policies take too long to evaluate for this many keys.";
            output.errors.push(error(deletion, Fault::new(Code::SlowDown).detail(why)));
            continue;
        }
        let permissions = Permission::for_deletion(bucket, deletion);
        let check = CheckedDeletion::of(call, deletion, permissions, requests_bypass);
        match work.run(Box::pin(check)).await {
            Err(fault) => output.errors.push(error(deletion, fault)),
            Ok(_) if translate::version(deletion.version.as_ref()).is_err() => {
                // Only `DeleteObjects` reports a malformed version id as a missing version.
                output.errors.push(error(deletion, Code::NoSuchVersion.into()));
            }
            Ok(checked) => allowed.push(checked),
        }
    }
    // All permissions are checked before the first removal, so that many keys can share a commit.
    let deletions: Vec<&Deletion> = allowed.iter().map(|checked| checked.deletion).collect();
    for (deletion, removed) in deletions.into_iter().zip(remove(call, allowed).await?) {
        match removed {
            Ok(_) if request.quiet => {}
            Ok(marker) => output.deleted.push(DeletedObject {
                key: deletion.key.as_str().to_owned(),
                version: deletion.version.as_ref().map(|version| version.as_str().to_owned()),
                delete_marker: marker.map(translate::version_text),
            }),
            Err(fault) => output.errors.push(error(deletion, fault)),
        }
    }
    if let Some(deleted) = call.deleted {
        deleted.end(&output);
    }
    Ok(S3Response::xml(StatusCode::OK, output.to_xml()))
}

/// The number of objects that one `DeleteObjects` removes concurrently, each in its own commit.
const REMOVED_AT_ONCE: usize = 16;

/// The result of a deletion for one object: the version of the delete marker that the deletion
/// created or removed, `None` if there is no such marker, or the fault.
type Outcome = Result<Option<VersionRef>, Fault>;

/// Removes objects and versions whose permissions are checked. Returns the results in the same
/// order. Objects on which no permission depends share a few commits.
async fn remove(call: &Call<'_>, checked: Vec<CheckedDeletion<'_>>) -> Result<Vec<Outcome>, Fault> {
    let bucket = call.named_bucket()?;
    let (mut keys, mut others) = (Vec::new(), Vec::new());
    for (place, checked) in checked.into_iter().enumerate() {
        let version = translate::version(checked.deletion.version.as_ref())?;
        match (version, &checked.checked_for) {
            (None, CheckedFor::Nothing) => keys.push((place, checked.deletion)),
            (Some(_), _) | (None, CheckedFor::Object(_)) => others.push((place, checked, version)),
        }
    }
    let mut outcomes = BTreeMap::new();
    if !keys.is_empty() {
        let named = |(_, deletion): &(usize, &Deletion)| {
            (deletion.key.as_str().as_bytes().to_vec(), condition(deletion))
        };
        let removed = call.volume.delete(bucket, keys.iter().map(named).collect()).await;
        for ((place, deletion), removed) in keys.into_iter().zip(removed.map_err(translate::fault)?)
        {
            let removed = removed.map(|removed| removed.marker);
            outcomes.insert(place, removed.map_err(|error| refusal(error, deletion)));
        }
    }
    let remove = async |(place, checked, version): (usize, CheckedDeletion<'_>, _)| {
        (place, checked.remove(call, version).await)
    };
    let removed = futures::stream::iter(others).map(remove).buffer_unordered(REMOVED_AT_ONCE);
    outcomes.extend(removed.collect::<Vec<_>>().await);
    Ok(outcomes.into_values().collect())
}

/// The deletion of one object or version whose permissions are checked.
struct CheckedDeletion<'d> {
    deletion: &'d Deletion,
    permissions: Vec<Permission>,
    /// The permission to bypass a retention in governance mode, if the request asks for it. Each
    /// version has its own lock, so the permission is checked for each object.
    bypass: Option<Permission>,
    may_bypass: bool,
    checked_for: CheckedFor,
}

/// The object for which the permissions of a deletion were checked.
enum CheckedFor {
    /// The permissions do not depend on the object.
    Nothing,
    /// The object; `None` if it did not exist.
    Object(Option<Box<Object>>),
}

impl CheckedFor {
    fn object(&self) -> Option<&Object> {
        match self {
            CheckedFor::Object(object) => object.as_deref(),
            CheckedFor::Nothing => None,
        }
    }
}

impl<'d> CheckedDeletion<'d> {
    /// Checks if the client may delete the object, and if it may bypass its retention.
    ///
    /// Fault: `AccessDenied`.
    async fn of(
        call: &Call<'_>,
        deletion: &'d Deletion,
        permissions: Vec<Permission>,
        requests_bypass: bool,
    ) -> Result<CheckedDeletion<'d>, Fault> {
        let Deletion { key, version, .. } = deletion;
        let (bucket, named) = (call.bucket()?, version.as_ref());
        let bypass = (requests_bypass && named.is_some())
            .then(|| Permission::bypass_governance(bucket, key, named, None));
        let needs_object =
            call.depends_on_object(&permissions)? || call.depends_on_object(bypass.as_slice())?;
        let mut checked = CheckedDeletion {
            deletion,
            permissions,
            bypass,
            may_bypass: false,
            checked_for: CheckedFor::Nothing,
        };
        checked.check(call, needs_object).await?;
        Ok(checked)
    }

    /// Checks the permissions of the deletion for the current object, and remembers this object for
    /// the commit. Looks it up only if `needs_object` is true. Fails with `AccessDenied` if the
    /// client lacks a permission.
    async fn check(&mut self, call: &Call<'_>, needs_object: bool) -> Result<(), Fault> {
        let Deletion { key, version, .. } = self.deletion;
        self.checked_for = match translate::version(version.as_ref()) {
            Ok(version) if needs_object => {
                CheckedFor::Object(find(call, key, version).await?.ok().map(Box::new))
            }
            // A malformed version id names no version.
            Ok(_) | Err(_) => CheckedFor::Nothing,
        };
        let object = self.checked_for.object();
        for permission in &self.permissions {
            if !call.is_allowed(permission, object)? {
                return Err(Code::AccessDenied.into());
            }
        }
        let may = |bypass| call.is_allowed(bypass, object);
        self.may_bypass = self.bypass.as_ref().map(may).transpose()?.unwrap_or(false);
        Ok(())
    }

    /// Removes the object for which the permissions were checked, if its condition holds. If
    /// another client has replaced or changed it meanwhile, checks the permissions for the new
    /// object and tries again.
    async fn remove(mut self, call: &Call<'_>, version: Option<VersionRef>) -> Outcome {
        let deletion = self.deletion;
        let (bucket, key) = (call.named_bucket()?, deletion.key.as_str().as_bytes());
        let mut tries = call.volume.tries();
        loop {
            let expected = match &self.checked_for {
                CheckedFor::Nothing => ObjectExpectation::Any,
                CheckedFor::Object(object) => {
                    object.as_deref().map_or(ObjectExpectation::Absent, ObjectExpectation::Object)
                }
            };
            let condition = condition(deletion);
            let removed = match version {
                None => {
                    let removed = call.volume.delete_expected(bucket, key, expected, condition);
                    tries.run(removed).await.map(|removed| removed.marker)
                }
                Some(version) => {
                    let must_hold = (expected, condition.as_ref());
                    let removed = call.volume.delete_expected_version(
                        bucket,
                        key,
                        version,
                        self.may_bypass,
                        must_hold,
                    );
                    let removed = tries.run(removed).await;
                    removed.map(|removed| removed.was_marker.then_some(version))
                }
            };
            match removed {
                Err(VolumeError::Fs(FsError::OtherObject))
                    if tries.again(self.checked_for.object()).await =>
                {
                    self.check(call, true).await?;
                }
                removed => return removed.map_err(|error| refusal(error, deletion)),
            }
        }
    }
}

fn condition(deletion: &Deletion) -> Option<RemoveCondition> {
    let Deletion { condition, stat, .. } = deletion;
    let tags = match condition {
        WritePrecondition::IfMatch(list) => Some(translate::tag_match(list)),
        WritePrecondition::None
        | WritePrecondition::IfNoneMatchStar
        | WritePrecondition::IfNoneMatch(_) => None,
    };
    let StatPrecondition { size, modified } = *stat;
    (tags.is_some() || stat.is_some()).then(|| RemoveCondition {
        tags,
        size,
        changed_seconds: modified.map(time::OffsetDateTime::unix_timestamp),
        object_tags: None,
    })
}

/// Returns the fault of a failed deletion. If several conditions were sent, the fault names the
/// first one, because the commit does not report which one failed.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the table of `translate::fault` has the others"
)]
fn refusal(error: VolumeError, deletion: &Deletion) -> Fault {
    let Deletion { condition, stat, .. } = deletion;
    let tags = *condition != WritePrecondition::None;
    match error {
        VolumeError::Fs(FsError::PreconditionFailed) => {
            failed(stat.name().filter(|_| !tags).unwrap_or("If-Match"))
        }
        VolumeError::Fs(FsError::Contended) if tags || stat.is_some() => {
            Code::ConditionalRequestConflict.into()
        }
        error => translate::fault(error),
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
