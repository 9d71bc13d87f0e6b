//! The objects of a folder as one ZIP file, which is made while it is sent.
//!
//! The content is not compressed, so the work is that of a download. Each object is read with the
//! permissions that the sender has then: an archive can last for hours, and breaks off if the key
//! or the user of the sender ends. An object that cannot be read is left out, and the last file of
//! the archive, `NOT-IN-THIS-ARCHIVE.txt`, names it. For example, `GET
//! /buckets/photos/archive?prefix=2026/` has `summer/a.jpg` for the object `2026/summer/a.jpg`.
//!
//! The name of each file is safe for programs that unpack archives: it is relative, has no `..`,
//! and occurs once.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use async_zip::tokio::write::ZipFileWriter;
use async_zip::{Compression, ZipDateTime, ZipDateTimeBuilder, ZipEntryBuilder};
use bytes::Bytes;
use futures::io::AsyncWriteExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use gateway::HttpBody;
use http::header::LAST_MODIFIED;
use http::{HeaderMap, Method};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use s3::xml::Element;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::io::DuplexStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::io::ReaderStream;
use utoipa::IntoParams;

use crate::api::ARCHIVES_MAX;
use crate::jobs::objects::{PAGE, all, decoded, is_truncated, text};
use crate::jobs::{JobParts, JobSender};
use crate::s3_call::{S3Call, error_of};
use crate::{Actor, AdminApi, ApiError};

/// The limit of objects of an archive.
const OBJECTS_MAX: usize = 100_000;

/// The bytes of an archive that wait for the client.
const BUFFER_BYTES: usize = 256 << 10;

/// The limit of objects that the list of left out objects names.
const LEFT_OUT_MAX: usize = 1_000;

/// The name of the list of left out objects.
const LEFT_OUT: &str = "NOT-IN-THIS-ARCHIVE.txt";

/// The parameters of an archive.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ArchiveQuery {
    /// The beginning of the keys. All objects without it.
    #[serde(default)]
    pub prefix: String,
}

/// An archive that is being written.
struct Archive {
    parts: Arc<JobParts>,
    sender: JobSender,
    bucket: String,
    prefix: String,
    zip: ZipFileWriter<DuplexStream>,
    /// The names of files so far, so that none occurs twice.
    names: HashSet<String>,
    /// The number for the next object with the same safe name.
    numbers: HashMap<String, u32>,
    left_out: Vec<String>,
    more_left_out: usize,
    _permit: OwnedSemaphorePermit,
}

/// The type and the permissions of each file: a file that its owner writes and everyone reads.
/// Without them, `unzip` creates files that no user can read.
const FILE_MODE: u16 = 0o100_644;

/// The end of an archive that cannot be completed: its client has gone, or an object broke off.
struct Broken(String);

impl AdminApi {
    /// Returns the objects of a bucket whose keys begin with a prefix, as a ZIP file.
    ///
    /// # Errors
    /// Those of `ListObjectsV2`; `TooManyArchives`. After the first byte an error breaks the
    /// response off.
    pub async fn archive(
        &self,
        actor: &Actor<'_>,
        bucket: &str,
        query: &ArchiveQuery,
    ) -> Result<HttpBody, ApiError> {
        let permit = Arc::clone(&self.archives).try_acquire_owned().map_err(|_full| {
            let why = format!("{ARCHIVES_MAX} archives are being made. Try again later.");
            ApiError::new(http::StatusCode::SERVICE_UNAVAILABLE, "TooManyArchives", why)
        })?;
        let sender =
            JobSender { authenticated: actor.authenticated().clone(), client: actor.client() };
        let parts = self.jobs.parts();
        // The first page is read before the response begins, so that a refusal has its status.
        let first = list(&parts, &sender, (bucket, &query.prefix), None).await?;
        let (writer, reader) = tokio::io::duplex(BUFFER_BYTES);
        let archive = Archive {
            parts,
            sender,
            bucket: bucket.to_owned(),
            prefix: query.prefix.clone(),
            zip: ZipFileWriter::with_tokio(writer),
            names: HashSet::new(),
            numbers: HashMap::new(),
            left_out: Vec::new(),
            more_left_out: 0,
            _permit: permit,
        };
        let (failed, failure) = tokio::sync::oneshot::channel();
        // The task ends when the client has gone, because its next write then fails.
        self.jobs.spawn(async move {
            if let Err(Broken(why)) = archive.write(first).await {
                tracing::debug!(why, "an archive is not complete");
                let _gone = failed.send(why);
            }
        });
        let pieces = ReaderStream::new(reader).map_ok(Frame::data);
        // A response that just ended would look like a complete file.
        let end = stream::once(async move {
            let why = failure.await.ok();
            why.map_or_else(|| Ok(Frame::data(Bytes::new())), |why| Err(std::io::Error::other(why)))
        });
        let body = StreamBody::new(pieces.chain(end));
        Ok(BodyExt::map_err(body, Into::into).boxed_unsync())
    }
}

/// Reads a page of keys and sizes after a token.
async fn list(
    parts: &JobParts,
    sender: &JobSender,
    (bucket, prefix): (&str, &str),
    after: Option<String>,
) -> Result<Element, ApiError> {
    let mut call = S3Call::on_bucket(Method::GET, bucket, None);
    call.query = vec![("list-type", Some("2".to_owned())), ("prefix", Some(prefix.to_owned()))];
    call.query.push(("encoding-type", Some("url".to_owned())));
    call.query.extend(after.map(|token| ("continuation-token", Some(token))));
    let reply = parts.s3(sender, &call, Bytes::new()).await?;
    Ok(Element::parse(&reply.body, "ListBucketResult", PAGE)?)
}

impl Archive {
    async fn write(mut self, first: Element) -> Result<(), Broken> {
        let mut page = first;
        let mut count = 0;
        loop {
            let objects = all(&page, "Contents");
            let objects: Vec<(String, bool)> = objects
                .map(|object| (decoded(object, "Key"), text(object, "Size") == "0"))
                .collect();
            for (key, is_empty) in objects {
                self.follow_rights()?;
                let is_folder = key.ends_with('/');
                if is_folder && is_empty {
                    continue;
                }
                count += 1;
                if is_folder {
                    self.leave_out(&key, "a folder of an archive has no content");
                } else if count > OBJECTS_MAX {
                    self.leave_out(&key, "the archive has too many objects");
                } else {
                    self.add(&key).await?;
                }
            }
            // The rest of a huge folder is not even listed.
            if !is_truncated(&page) || count > OBJECTS_MAX {
                break;
            }
            self.follow_rights()?;
            let after = Some(text(&page, "NextContinuationToken"));
            let of = (self.bucket.as_str(), self.prefix.as_str());
            page = list(&self.parts, &self.sender, of, after).await.map_err(broken)?;
        }
        if !self.left_out.is_empty() {
            let mut text = self.left_out.join("\n");
            if self.more_left_out > 0 {
                let _ = write!(text, "\nand {} more", self.more_left_out);
            }
            text.push('\n');
            let entry = entry(LEFT_OUT.to_owned(), ZipDateTime::default());
            self.zip.write_entry_whole(entry, text.as_bytes()).await.map_err(broken)?;
        }
        self.zip.close().await.map_err(broken).map(drop)
    }

    /// Reads the rights of the sender again. Fails if its key, its user or its role has ended.
    fn follow_rights(&mut self) -> Result<(), Broken> {
        let now = rules::time(self.parts.volume.now());
        let sender = self.sender.authenticated.identity.as_deref();
        let current = sender.and_then(|sender| self.parts.access.current(sender, now));
        let current = current.ok_or_else(|| broken("the rights of the sender have ended"))?;
        self.sender.authenticated.identity = Some(current);
        Ok(())
    }

    fn leave_out(&mut self, key: &str, why: &str) {
        if self.left_out.len() < LEFT_OUT_MAX {
            // Quoted, so that no key looks like a further line.
            self.left_out.push(format!("{key:?}: {why}"));
        } else {
            self.more_left_out += 1;
        }
    }

    /// Adds an object.
    async fn add(&mut self, key: &str) -> Result<(), Broken> {
        let mut call = S3Call::on_bucket(Method::GET, &self.bucket, None);
        call.key = Some(key);
        let nothing = Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync();
        let response = self.parts.stream_s3(&self.sender, &call, nothing).await;
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                self.leave_out(key, &error.message);
                return Ok(());
            }
        };
        let (head, mut body) = response.into_parts();
        if !head.status.is_success() {
            let document = body.collect().await.map(http_body_util::Collected::to_bytes);
            let error = error_of(head.status, &document.unwrap_or_default());
            self.leave_out(key, &error.message);
            return Ok(());
        }
        let name = self.name(key);
        let entry = entry(name, modified(&head.headers));
        let mut file = self.zip.write_entry_stream(entry).await.map_err(broken)?;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            file.write_all(&data).await.map_err(broken)?;
        }
        file.close().await.map_err(broken)
    }

    /// Returns the name of the file of an object.
    fn name(&mut self, key: &str) -> String {
        // The folder of the prefix itself is not part of the names.
        let folder = self.prefix.rfind('/').map_or(0, |at| at + 1);
        let safe = safe_name(key.get(folder..).unwrap_or(key));
        let mut name = safe.clone();
        while name == LEFT_OUT || !self.names.insert(name.clone()) {
            // The number is kept, so that many objects with one safe name cost one step each.
            let number = self.numbers.entry(safe.clone()).or_insert(1);
            *number += 1;
            name = format!("{safe} ({number})");
        }
        name
    }
}

/// Returns the entry of a file with a time of modification.
fn entry(name: String, modified: ZipDateTime) -> ZipEntryBuilder {
    let entry = ZipEntryBuilder::new(name.into(), Compression::Stored);
    entry.unix_permissions(FILE_MODE).last_modification_date(modified)
}

/// Returns the time of modification of an object, in UTC. A ZIP file has times from 1980 to 2107.
fn modified(headers: &HeaderMap) -> ZipDateTime {
    let text = headers.get(LAST_MODIFIED).and_then(|value| value.to_str().ok());
    let time = text.and_then(|text| OffsetDateTime::parse(text, &Rfc2822).ok());
    let Some(time) = time.filter(|time| (1980..2108).contains(&time.year())) else {
        return ZipDateTime::default();
    };
    ZipDateTimeBuilder::new()
        .year(time.year())
        .month(u32::from(u8::from(time.month())))
        .day(u32::from(time.day()))
        .hour(u32::from(time.hour()))
        .minute(u32::from(time.minute()))
        .second(u32::from(time.second()))
        .build()
}

fn broken(error: impl std::fmt::Display) -> Broken {
    Broken(error.to_string())
}

/// Returns a name that is relative and stays in the folder into which a program unpacks it.
fn safe_name(key: &str) -> String {
    let parts = key.split(['/', '\\']).filter(|part| !part.is_empty());
    let safe = parts.map(|part| match part {
        "." | ".." => "_".to_owned(),
        part => part
            .chars()
            .map(|char| if char.is_control() || char == ':' { '_' } else { char })
            .collect(),
    });
    let name = safe.collect::<Vec<String>>().join("/");
    if name.is_empty() { "_".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
