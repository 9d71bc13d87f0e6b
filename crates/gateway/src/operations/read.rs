//! Reads one object: its content, its headers, its attributes.
//!
//! `GetObject` and `HeadObject` share one function. For example, a HEAD with `partNumber=2` returns
//! the headers of the second part without its content.

use std::ops::Range;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE};
use record::{Content, PartRun, SumKind};
use s3::conditions::{ReadVerdict, failed};
use s3::metadata::mail_safe;
use s3::operation::Permission;
use s3::range::Span;
use s3::request::{GetObject, GetObjectAttributes, ObjectAttribute};
use s3::response::{GetObjectAttributesOutput, ObjectParts, PartEntry};
use s3::{Code, Fault, VersionId};
use volume::{FsError, Object, VolumeError};

use super::{lifecycle, locks};
use crate::call::Call;
use crate::encryption;
use crate::response::S3Response;
use crate::translate::{self, checksum, etag, part_count, shown_sum, time};

/// The content type of an object that was stored without one, as in S3.
const CONTENT_TYPE_DEFAULT: &str = "binary/octet-stream";

/// Returns the object that the request names. Checks the permissions for this object.
pub(super) async fn find(call: &Call<'_>, version: Option<&VersionId>) -> Result<Object, Fault> {
    let (bucket, key) = call.object()?;
    let (named, found) = (call.named_bucket()?, translate::version(version)?);
    match call.volume.stat_version(named, key.as_str().as_bytes(), found).await {
        Ok(object) => {
            call.check_object(&object, (bucket, key, version), call.rules()?)?;
            Ok(object)
        }
        Err(VolumeError::Fs(error @ (FsError::NoSuchKey | FsError::Deleted(_)))) => {
            Err(translate::fault(error).with("Key", key.as_str()))
        }
        Err(error) => Err(translate::fault(error)),
    }
}

/// Carries out `GetObject` and `HeadObject`. A HEAD has no body.
pub(super) async fn get_object(call: &Call<'_>, head: bool) -> Result<S3Response, Fault> {
    let request = GetObject::parse(&call.arguments())?;
    let mut object = find(call, request.version.as_ref()).await?;
    encryption::unlock(call, &mut object, request.customer_key.as_deref())?;
    let (tag, changed) = (etag(object.tag()), time(object.changed()));
    match request.conditions.decide(&tag, changed) {
        ReadVerdict::Proceed => {}
        ReadVerdict::Failed(condition) => return Err(failed(condition)),
        ReadVerdict::NotModified => {
            let mut response = S3Response::empty(StatusCode::NOT_MODIFIED);
            response.etag(object.tag());
            response.last_modified(changed);
            response.version(object.version);
            for (name, value) in translate::metadata(&object.file().object).headers() {
                if matches!(name.as_str(), "cache-control" | "expires") {
                    response.set_named(&name, value);
                }
            }
            return Ok(response);
        }
    }

    let selection = Selection::of(&request, &object, &tag)?;
    let mut response = S3Response::empty(selection.status());
    describe(&mut response, &object);
    let mode = object.file().encryption.as_ref();
    response.encryption(mode, request.customer_key.as_deref());
    describe_tags(call, &mut response, &object, request.version.as_ref())?;
    locks::describe(call, &mut response, &object, request.version.as_ref())?;
    // Rules that expire current objects do not concern a named version.
    if request.version.is_none() {
        lifecycle::describe_object(call, &mut response, &object)?;
    }
    if request.checksum {
        selection.describe_checksum(call, &mut response, &object).await?;
    }
    if let Selection::Part { parts: Some(parts), .. } = &selection {
        response.set_named("x-amz-mp-parts-count", &parts.to_string());
    }
    // The `response-*` parameters of the request replace the stored headers.
    for (name, value) in &request.overrides {
        response.set_named(name, value);
    }
    if let Some(span) = selection.span() {
        response.set(CONTENT_RANGE, &span.content_range());
    }
    let range = selection.range(object.size());
    response.length(range.end - range.start);
    if !head {
        match &object.file().content {
            // A program may have extended the file. The hole after these bytes reads as zeros.
            Content::Inline(bytes) if !object.file().sparse && object.key().is_none() => {
                response.send(part(bytes, &range)?);
            }
            Content::Inline(_) | Content::Slices(_) | Content::Pages(_) => {
                response.stream(call.sending.send(call.volume, object, range).await?);
            }
        }
    }
    Ok(response)
}

/// The part of an object's content that a request reads.
#[derive(Debug)]
enum Selection {
    Whole,
    Range(Span),
    Part {
        /// The index of the selected part of the object, from 0.
        index: u32,
        /// The number of parts; `None` if the object was not uploaded in parts.
        parts: Option<u32>,
        /// The range of the part; `None` for the single part of an empty object.
        span: Option<Span>,
    },
}

impl Selection {
    fn of(request: &GetObject, object: &Object, tag: &str) -> Result<Selection, Fault> {
        let size = object.size();
        if let Some(part) = request.part {
            let index = u32::from(part.get()) - 1;
            let runs = &object.file().parts;
            let parts = (!runs.is_empty()).then(|| count(runs));
            let range = part_range(runs, index, size).ok_or_else(|| {
                Fault::new(Code::InvalidPartNumber)
                    .with("ActualPartCount", parts.unwrap_or(1).to_string())
                    .with("PartNumberRequested", part.get().to_string())
            })?;
            let length = range.end - range.start;
            let span = (length > 0).then_some(Span { first: range.start, length, size });
            return Ok(Selection::Part { index, parts, span });
        }
        match request.range_for(tag, time(object.changed())) {
            Some(range) => Ok(range.resolve(size)?.map_or(Selection::Whole, Selection::Range)),
            None => Ok(Selection::Whole),
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Selection::Whole => StatusCode::OK,
            Selection::Range(_) | Selection::Part { .. } => StatusCode::PARTIAL_CONTENT,
        }
    }

    fn span(&self) -> Option<Span> {
        match self {
            Selection::Whole => None,
            Selection::Range(span) => Some(*span),
            Selection::Part { span, .. } => *span,
        }
    }

    fn range(&self, size: u64) -> Range<u64> {
        match (self, self.span()) {
            (_, Some(span)) => span.first..span.first + span.length,
            (Selection::Part { .. }, None) => 0..0,
            (_, None) => 0..size,
        }
    }

    /// Adds the checksum of the response's content: that of the object or of the part. A range has
    /// no checksum.
    async fn describe_checksum(
        &self,
        call: &Call<'_>,
        response: &mut S3Response,
        object: &Object,
    ) -> Result<(), Fault> {
        let whole = shown_sum(&object.file().sums);
        match self {
            Selection::Range(_) => {}
            Selection::Part { index, parts: Some(_), .. } => {
                let sums = call.volume.part_sums(object).await.map_err(translate::fault)?;
                if let Some(sum) = sums.get(*index as usize) {
                    response.checksum(sum, 1);
                    let kind = whole.map_or(sum.kind, |sum| sum.kind);
                    let kind = translate::checksum_type(kind);
                    response.set_named("x-amz-checksum-type", kind.as_str());
                }
            }
            Selection::Whole | Selection::Part { .. } => {
                if let Some(sum) = whole {
                    response.checksum(sum, part_count(object.tag()));
                }
            }
        }
        Ok(())
    }
}

fn count(runs: &[PartRun]) -> u32 {
    runs.iter().map(|run| run.count).sum()
}

/// Returns the range of a part. An object without parts counts as one part.
fn part_range(runs: &[PartRun], index: u32, size: u64) -> Option<Range<u64>> {
    if runs.is_empty() {
        return (index == 0).then_some(0..size);
    }
    let (mut start, mut left) = (0, index);
    for run in runs {
        if left < run.count {
            let start = start + u64::from(left) * run.length;
            return Some(start..start + run.length);
        }
        left -= run.count;
        start += u64::from(run.count) * run.length;
    }
    None
}

/// Adds the headers that all responses about an object have.
fn describe(response: &mut S3Response, object: &Object) {
    response.etag(object.tag());
    response.last_modified(time(object.changed()));
    response.version(object.version);
    response.set_static(ACCEPT_RANGES, "bytes");
    response.set_static(CONTENT_TYPE, CONTENT_TYPE_DEFAULT);
    let kept = &object.file().object;
    for (name, value) in translate::metadata(kept).headers() {
        // User metadata may be any UTF-8; S3 sends it in the encoding of mail headers.
        let is_users = name.starts_with("x-amz-meta-");
        response.set_named(&name, &if is_users { mail_safe(value) } else { value.into() });
    }
}

/// Adds the number of tags, "when you have the relevant permission to read object tags" (API
/// Reference, `GetObject`).
fn describe_tags(
    call: &Call<'_>,
    response: &mut S3Response,
    object: &Object,
    version: Option<&VersionId>,
) -> Result<(), Fault> {
    let tags = object.file().object.tags.len();
    if tags > 0 {
        let (bucket, key) = call.object()?;
        if call.is_allowed(&Permission::read_tags(bucket, key, version), Some(object))? {
            response.set_named("x-amz-tagging-count", &tags.to_string());
        }
    }
    Ok(())
}

/// Returns a range of content that is stored in the inode record.
fn part(bytes: &Bytes, range: &Range<u64>) -> Result<Bytes, Fault> {
    let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
    match (start, end) {
        (Ok(start), Ok(end)) if start <= end && end <= bytes.len() => Ok(bytes.slice(start..end)),
        _ => {
            tracing::error!(
                ?range,
                bytes = bytes.len(),
                "cannot read an object: its record has fewer bytes than its size"
            );
            Err(Code::InternalError.into())
        }
    }
}

/// Carries out `GetObjectAttributes`.
pub(super) async fn attributes(call: &Call<'_>) -> Result<S3Response, Fault> {
    let request = GetObjectAttributes::parse(&call.arguments())?;
    let mut object = find(call, request.version.as_ref()).await?;
    encryption::unlock(call, &mut object, request.customer_key.as_deref())?;
    let requests = |attribute| request.attributes.contains(&attribute);
    let file = object.file();
    let sum = shown_sum(&file.sums);
    let parts = if requests(ObjectAttribute::ObjectParts) && !file.parts.is_empty() {
        Some(object_parts(call, &request, &object).await?)
    } else {
        None
    };
    let output = GetObjectAttributesOutput {
        etag: requests(ObjectAttribute::ETag).then(|| etag(object.tag())),
        checksum: sum
            .filter(|_| requests(ObjectAttribute::Checksum))
            .map(|sum| checksum(sum, part_count(object.tag()))),
        parts,
        storage_class: requests(ObjectAttribute::StorageClass).then(|| {
            let class = file.object.header(record::Header::StorageClass);
            class.unwrap_or(s3::metadata::STANDARD).to_owned()
        }),
        size: requests(ObjectAttribute::ObjectSize).then_some(object.size()),
    };
    let mut response = S3Response::xml(StatusCode::OK, output.to_xml());
    response.last_modified(time(object.changed()));
    response.version(object.version);
    Ok(response)
}

async fn object_parts(
    call: &Call<'_>,
    request: &GetObjectAttributes,
    object: &Object,
) -> Result<ObjectParts, Fault> {
    let runs = &object.file().parts;
    let total = count(runs);
    let sums = call.volume.part_sums(object).await.map_err(translate::fault)?;
    let first = request.part_marker.min(total);
    let last = first.saturating_add(request.max_parts).min(total);
    // Without checksums of parts, S3 returns the number of parts and no entries.
    let has_sums = sums.iter().any(|sum| sum.kind == SumKind::FullObject) && !sums.is_empty();
    let mut parts = Vec::new();
    for index in (first..last).filter(|_| has_sums) {
        let Some(range) = part_range(runs, index, object.size()) else { break };
        let sum = sums.get(index as usize);
        parts.push(PartEntry {
            number: index + 1,
            last_modified: time(object.changed()),
            etag: String::new(),
            size: range.end - range.start,
            checksum: sum.map(|sum| s3::response::Checksum { kind: None, ..checksum(sum, 1) }),
        });
    }
    Ok(ObjectParts {
        total,
        part_marker: request.part_marker,
        next_part_marker: (last < total).then_some(last),
        max_parts: request.max_parts,
        parts,
    })
}
