//! The job `delete-bucket`: deletes a bucket with its objects, versions, uploads and trash.
//!
//! Each deletion is a request of S3 in the name of the user who started the job. So an object lock
//! keeps its object, and the bucket with it. Objects that other clients create meanwhile are
//! deleted, too, until the bucket is gone. A new bucket of the same name is another bucket: the job
//! names the inode number in each request, and stops at `NoSuchBucket`.
//!
//! For example, if a legal hold protects one version, the job deletes all other versions and fails
//! with the key of this one.

use std::sync::Arc;

use ::admin::AdminError;
use bytes::Bytes;
use gateway::ExpectedBucket;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderValue};
use policy::AdminAction;
use s3::xml::{Element, Writer};

use super::objects::{PAGE, all, decoded, is_truncated, text};
use super::parts::{Completed, JobFailure, JobParts, JobSender};
use super::progress::JobProgress;
use crate::ApiError;
use crate::s3_call::S3Call;

/// The number of attempts to delete the bucket. Each follows the deletion of all that it has.
const ATTEMPTS_MAX: u32 = 5;

/// The limit of pages of uploads that one attempt aborts. Clients that create uploads meanwhile
/// cannot keep the job running.
const UPLOAD_PAGES_MAX: u32 = 10_000;

/// The limit of failures in the result.
const FAILURES_MAX: usize = 20;

/// A bucket to delete, and the sender of the job.
#[derive(Clone, Debug)]
pub(crate) struct BucketDeletion {
    pub(crate) sender: JobSender,
    pub(crate) bucket: String,
    /// The bucket that had the name when the permissions were checked.
    pub(crate) expected: ExpectedBucket,
    /// True if the sender may empty the trash of the bucket.
    pub(crate) may_empty_trash: bool,
}

impl BucketDeletion {
    /// Returns a request on the bucket, with `parameter` in the query if it is given. The parameter
    /// has no value.
    fn call<'a>(&'a self, method: Method, parameter: Option<&'a str>) -> S3Call<'a> {
        let call = S3Call::on_bucket(method, &self.bucket, parameter);
        S3Call { expected: Some(self.expected), ..call }
    }
}

/// Deletes the content of the bucket, and then the bucket, in at most [`ATTEMPTS_MAX`] attempts.
///
/// Fails with a sentence if a request is refused, or if other clients create objects in the bucket
/// during each attempt.
pub(super) async fn run(
    parts: &JobParts,
    work: &BucketDeletion,
    progress: &JobProgress,
) -> Result<Completed, JobFailure> {
    let BucketDeletion { bucket, .. } = work;
    let failed = |error: ApiError| {
        let doing = format!("delete everything in the bucket {bucket:?}");
        JobFailure::of(&doing, &format!("{} ({})", error.message.trim_end_matches('.'), error.code))
    };
    let mut last = None;
    for _ in 0..ATTEMPTS_MAX {
        delete_versions(parts, work, progress).await?;
        abort_uploads(parts, work, progress).await.map_err(failed)?;
        empty_trash(parts, work, progress).await?;
        let call = work.call(Method::DELETE, None);
        match parts.s3(&work.sender, &call, Bytes::new()).await {
            Ok(_) => return Ok(Completed::with(format!("The bucket {bucket:?} was deleted."))),
            // Another client has created an object meanwhile.
            Err(error) if error.code == "BucketNotEmpty" => last = Some(error),
            Err(error) => return Err(failed(error)),
        }
    }
    Err(last.map_or_else(|| JobFailure("The bucket is not empty.".to_owned()), failed))
}

/// Deletes all objects and versions, page by page. If some cannot be deleted, deletes the others,
/// and then fails with their keys. It stops at the page that brings [`FAILURES_MAX`] failures.
async fn delete_versions(
    parts: &JobParts,
    work: &BucketDeletion,
    progress: &JobProgress,
) -> Result<(), JobFailure> {
    let unlisted = |error: &dyn std::fmt::Display| {
        JobFailure::of(&format!("list the versions of the bucket {:?}", work.bucket), error)
    };
    // The position is kept, because failed deletions leave their versions at the beginning.
    let (mut position, mut failures) = (Vec::new(), Vec::new());
    loop {
        let mut call = work.call(Method::GET, Some("versions"));
        call.query.push(("encoding-type", Some("url".to_owned())));
        call.query.append(&mut position);
        let reply = parts.s3(&work.sender, &call, Bytes::new()).await;
        let reply = reply.map_err(|error| unlisted(&error))?;
        let list = Element::parse(&reply.body, "ListVersionsResult", PAGE);
        let list = list.map_err(|fault| unlisted(&fault.message))?;
        let versions = all(&list, "Version").chain(all(&list, "DeleteMarker"));
        let found: Vec<(String, String)> =
            versions.map(|it| (decoded(it, "Key"), text(it, "VersionId"))).collect();
        if !found.is_empty() {
            let refused = delete(parts, work, &found).await?;
            progress.add("versions", (found.len() - refused.len()) as u64);
            failures.extend(refused);
        }
        if failures.len() >= FAILURES_MAX || !is_truncated(&list) {
            break;
        }
        position = vec![
            ("key-marker", Some(decoded(&list, "NextKeyMarker"))),
            ("version-id-marker", Some(text(&list, "NextVersionIdMarker"))),
        ];
    }
    if failures.is_empty() {
        return Ok(());
    }
    failures.truncate(FAILURES_MAX);
    Err(JobFailure(format!("Some versions cannot be deleted: {}.", failures.join("; "))))
}

/// Deletes versions, and returns a text about each that cannot be deleted.
async fn delete(
    parts: &JobParts,
    work: &BucketDeletion,
    versions: &[(String, String)],
) -> Result<Vec<String>, JobFailure> {
    let failed = |error: &dyn std::fmt::Display| JobFailure::of("delete versions", error);
    // XML cannot hold control characters, so such keys are deleted one by one.
    let is_plain = |text: &str| !text.chars().any(|char| char.is_control() || char == '\u{fffe}');
    let (plain, others): (Vec<_>, Vec<_>) = versions.iter().partition(|(key, _)| is_plain(key));
    let mut refused = Vec::new();
    for (key, version) in others {
        let mut call = work.call(Method::DELETE, None);
        call.key = Some(key);
        call.query = vec![("versionId", Some(version.clone()))];
        if let Err(error) = parts.s3(&work.sender, &call, Bytes::new()).await {
            // The bucket is gone, and each further deletion would be refused as well.
            if error.code == "NoSuchBucket" {
                return Err(failed(&error));
            }
            refused.push(format!("{key:?} ({})", error.code));
        }
    }
    if plain.is_empty() {
        return Ok(refused);
    }
    let mut document = Writer::document();
    document.root("Delete", |delete| {
        delete.flag("Quiet", true);
        for (key, version) in plain {
            delete.element("Object", |object| {
                object.text("Key", key);
                object.text("VersionId", version);
            });
        }
    });
    let mut call = work.call(Method::POST, Some("delete"));
    call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    let reply = parts.s3(&work.sender, &call, document.finish().into()).await;
    let reply = reply.map_err(|error| failed(&error))?;
    let result = Element::parse(&reply.body, "DeleteResult", PAGE);
    let result = result.map_err(|fault| failed(&fault.message))?;
    let errors = all(&result, "Error");
    refused.extend(errors.map(|it| format!("{} ({})", text(it, "Key"), text(it, "Code"))));
    Ok(refused)
}

/// Aborts all multipart uploads, at most [`UPLOAD_PAGES_MAX`] pages of them.
async fn abort_uploads(
    parts: &JobParts,
    work: &BucketDeletion,
    progress: &JobProgress,
) -> Result<(), ApiError> {
    for _ in 0..UPLOAD_PAGES_MAX {
        // Each page is the first one, because its uploads are aborted before the next.
        let mut call = work.call(Method::GET, Some("uploads"));
        call.query.push(("encoding-type", Some("url".to_owned())));
        let reply = parts.s3(&work.sender, &call, Bytes::new()).await?;
        let list = Element::parse(&reply.body, "ListMultipartUploadsResult", PAGE)?;
        let uploads = all(&list, "Upload").map(|it| (decoded(it, "Key"), text(it, "UploadId")));
        let uploads: Vec<(String, String)> = uploads.collect();
        let mut aborted = 0;
        for (key, id) in uploads {
            let mut call = work.call(Method::DELETE, None);
            call.key = Some(&key);
            call.query = vec![("uploadId", Some(id))];
            match parts.s3(&work.sender, &call, Bytes::new()).await {
                Ok(_) => aborted += 1,
                // Its client has completed or aborted it meanwhile.
                Err(error) if error.code == "NoSuchUpload" => aborted += 1,
                Err(error) => return Err(error),
            }
        }
        progress.add("uploads", aborted);
        if aborted == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Removes everything from the trash, if the bucket has one.
async fn empty_trash(
    parts: &JobParts,
    work: &BucketDeletion,
    progress: &JobProgress,
) -> Result<(), JobFailure> {
    let failed = |error: AdminError| JobFailure::of("empty the trash", &error);
    let trash = match parts.admin.trash(Arc::clone(&parts.blocks), &work.bucket, false).await {
        Ok(trash) if ExpectedBucket(trash.ino()) != work.expected => {
            return Err(failed(AdminError::NoSuchBucket));
        }
        Ok(trash) => trash,
        Err(AdminError::HasNoTrash) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    // An operator has turned the trash on after the start, perhaps because of this job.
    if !work.may_empty_trash {
        let why = format!("the user lacks the permission {}", AdminAction::EmptyTrash.name());
        return Err(JobFailure::of("empty the trash", &why));
    }
    let removed = trash.empty(b"").await.map_err(failed)?;
    progress.add("items of the trash", removed);
    Ok(())
}
