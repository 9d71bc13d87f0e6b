//! Blocks as objects of an S3 bucket.
//!
//! The store uses only plain PUT, GET of a range, HEAD, DELETE and LIST. A bucket that supports
//! `If-None-Match: *`, which [`probe`](BlockStore::probe) finds out (see [`probing`]), also refuses
//! other bytes under a used id. The store does not rely on that, because ids are unique by
//! construction.
//!
//! Each call is one attempt; [`Retrying`](crate::Retrying) repeats calls. Objects are read and
//! written through [`Objects`], a minimal client. Listings go through the SDK, which costs several
//! times as much per request. The types of both stay private.
//!
//! For example, the block with counter 5,000 of a session is the object
//! `<prefix>/<session>/000000001/<id>`. A PUT of 16 MiB sends its bytes without a copy.

mod address;
mod bare;
mod body;
mod fault;
mod findings;
mod objects;
mod options;
mod pieces;
mod pool;
mod probing;
mod recomputed;
mod sign;
mod span;
mod wire;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    BehaviorVersion, Credentials, IdentityCache, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, SharedHttpClient, StalledStreamProtectionConfig,
    retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_smithy_http_client::Builder as HttpBuilder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use bytes::Bytes;
use futures::future::BoxFuture;
use record::{BlockId, Nonce};

use self::bare::Zipper;
use self::body::{Body, Zipped};
use self::fault::{Doing, Failure, ObjectReply};
use self::findings::Findings;
use self::objects::{IncomingObject, Objects, Payload};
pub use self::options::{BucketOptions, SecretKey};
use self::pieces::Pieces;
use self::pool::{IDLE_CONNECTION_MAX, IDLE_CONNECTIONS_MAX};
use self::recomputed::{ChecksumBuilder, RecomputedChecksums};
use self::span::Span;
use crate::byte_source::AtOnce;
use crate::store::{
    READING_MARK, REMOVING_MARK, SETTING_MARK, check_encrypted, check_found_mark, check_mark,
    compare_marks,
};
use crate::{
    BlockError, BlockErrorKind, BlockPage, BlockRef, BlockStore, ByteSource, MARK_BYTES_MAX,
    MARK_NAME, SealedBlock, Stored, place,
};

/// Keys on one page of a listing; S3 returns no more.
const PAGE_KEYS: i32 = 1_000;

/// Blocks as objects of an S3 bucket.
pub struct BucketBlocks {
    objects: Objects,
    client: Client,
    bucket: String,
    /// The prefix of all keys. Empty, or ends with a slash.
    prefix: String,
    answer_timeout: Duration,
    block_timeout: Duration,
    /// True if a PUT with `If-None-Match: *` was refused for an existing object.
    conditional: AtomicBool,
    /// True if a PUT was answered with the MD5 of its body, and the metadata beside it could be
    /// read back.
    reports_md5: AtomicBool,
    /// Other observations of the last probes (checks of the bucket's abilities) and of reads.
    findings: Findings,
    /// Checksums that were computed again for bare blocks (objects of content alone) whose metadata
    /// the bucket has lost.
    recomputed: RecomputedChecksums,
}

impl BucketBlocks {
    /// Creates a client of a bucket. It sends no request: [`probe`](BlockStore::probe) finds out
    /// whether the bucket can be reached.
    ///
    /// # Errors
    /// Fails with `Refused` if the options are invalid.
    pub fn connect(options: BucketOptions) -> Result<BucketBlocks, BlockError> {
        options.check()?;
        let prefix = match options.prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let objects = Objects::new(&options, &prefix).map_err(|why| {
            let doing = "connecting to the block bucket";
            BlockError::with_cause(BlockErrorKind::Refused, doing, why)
        })?;
        let plain = options.endpoint.as_deref().is_some_and(|url| url.starts_with("http://"));
        let timeouts = TimeoutConfig::builder().connect_timeout(options.connect_timeout).build();
        let SecretKey(secret_key) = options.secret_key;
        let credentials = Credentials::new(options.access_key, secret_key, None, None, "ashlar");
        let mut config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .http_client(http_client(plain))
            .region(Region::new(options.region))
            .credentials_provider(credentials)
            .identity_cache(IdentityCache::lazy().build())
            .force_path_style(options.path_style)
            // A block has its own checksums, so those of the SDK are not needed.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            // The layer `Retrying` repeats calls, with its own budget.
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts);
        config.set_endpoint_url(options.endpoint);
        Ok(BucketBlocks {
            objects,
            client: Client::from_conf(config.build()),
            bucket: options.bucket,
            prefix,
            answer_timeout: options.answer_timeout,
            block_timeout: options.block_timeout,
            conditional: AtomicBool::new(false),
            reports_md5: AtomicBool::new(false),
            findings: Findings::default(),
            recomputed: RecomputedChecksums::default(),
        })
    }

    /// Returns true if the last probe, a check of the bucket's abilities, found that the bucket
    /// refuses a second PUT under one key.
    pub fn supports_conditional_put(&self) -> bool {
        self.conditional.load(Ordering::Relaxed)
    }

    /// Sends a PUT, plain or only if the name is free. Returns the MD5 of the body if the response
    /// has it.
    async fn put_object(
        &self,
        name: &str,
        body: impl Into<Payload>,
        only_if_absent: bool,
        doing: Doing,
    ) -> Result<ObjectReply<Option<[u8; 16]>>, BlockError> {
        let sending = pin!(self.objects.put(name, body.into(), only_if_absent));
        self.ask(self.block_timeout, doing, sending).await
    }

    /// Sends a GET of a range. Returns the bytes, cut at the object's end; `None` if there is no
    /// object.
    async fn get_object(
        &self,
        name: &str,
        bytes: Range<u64>,
        doing: Doing,
    ) -> Result<Option<Bytes>, BlockError> {
        let most = bytes.end.saturating_sub(bytes.start);
        match self.request_range(name, bytes, doing).await? {
            // One byte was requested only to learn if the object exists.
            ObjectReply::Done(_) if most == 0 => Ok(Some(Bytes::new())),
            ObjectReply::Done(found) => {
                let reading = pin!(found.collect(most));
                let body = self.within(self.block_timeout, doing, reading).await?;
                let failed =
                    |error| BlockError::with_cause(BlockErrorKind::Unavailable, doing, error);
                body.map(Some).map_err(failed)
            }
            ObjectReply::PastEnd => Ok(Some(Bytes::new())),
            ObjectReply::Absent => Ok(None),
            answer @ ObjectReply::Taken => Err(self.unexpected_reply(doing, &answer)),
        }
    }

    /// Reads a range of the sealed bytes of a block (its content with header and checksums) until
    /// all of it has arrived.
    async fn collect(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        let mut source = self.open(id, bytes).await?;
        let mut found = Vec::new();
        while let Some(piece) = source.next().await? {
            found.push(piece);
        }
        Ok(found.concat().into())
    }

    /// Reads a whole bare block (an object of content alone) whose checksums are lost, and
    /// remembers new checksums if the CRC of the content is the record's. Returns the number of
    /// bytes that were read.
    async fn recompute_from_object(
        &self,
        block: BlockRef,
        doing: Doing,
    ) -> Result<u64, BlockError> {
        let corrupt = |why: String| BlockError::with_cause(BlockErrorKind::Corrupt, doing, why);
        let length = u64::from(block.length);
        let found = match self.request_range(&place::name(block.id), 0..length, doing).await? {
            ObjectReply::Done(found) => found,
            ObjectReply::Absent => return Err(BlockError::new(BlockErrorKind::NotFound, doing)),
            answer => return Err(self.unexpected_reply(doing, &answer)),
        };
        // Compare the sizes first: a wrong object is then not read at all.
        if let Some(whole) = found.whole().filter(|whole| *whole != length) {
            let error = format!("its object has {whole} bytes, but the record {length}");
            return Err(corrupt(error));
        }
        let mut body = Body::new(found, length, self.answer_timeout, doing)?;
        let mut builder = ChecksumBuilder::new(block);
        while let Some(frame) = body.next().await? {
            builder.push(frame).map_err(corrupt)?;
        }
        self.recomputed.remember(block.id, builder.finish().map_err(corrupt)?);
        self.findings.note_lost_checksums(&self.bucket);
        Ok(length)
    }

    /// Sends a GET of a range, and waits for the head of the response.
    async fn request_range(
        &self,
        name: &str,
        bytes: Range<u64>,
        doing: Doing,
    ) -> Result<ObjectReply<IncomingObject>, BlockError> {
        // S3 has no empty ranges. One byte is requested, to learn if the object exists.
        let last = bytes.end.max(bytes.start.saturating_add(1)) - 1;
        let asking = pin!(self.objects.get(name, Span { first: bytes.start, last }));
        self.ask(self.answer_timeout, doing, asking).await
    }

    /// Compares a block with the stored one, after the bucket refused a PUT because the name is
    /// taken. Succeeds if the same bytes are stored, and fails with `Conflict` if others are.
    async fn compare(&self, block: &SealedBlock, doing: Doing) -> Result<(), BlockError> {
        // One byte more than expected, to detect a longer object.
        let found = self.get(block.id(), 0..block.sealed_bytes() + 1).await;
        match found {
            Ok(found) if found == block.to_bytes() => Ok(()),
            Ok(_) => Err(BlockError::new(BlockErrorKind::Conflict, doing)),
            // An object that is no valid block is not this one, and one without checksums cannot be
            // compared.
            Err(error)
                if matches!(
                    error.kind(),
                    BlockErrorKind::Corrupt | BlockErrorKind::ChecksumsLost
                ) =>
            {
                Err(BlockError::with_cause(BlockErrorKind::Conflict, doing, error))
            }
            Err(error) if error.kind() == BlockErrorKind::NotFound => {
                let error = "the object was deleted meanwhile";
                Err(BlockError::with_cause(BlockErrorKind::Unavailable, doing, error))
            }
            Err(error) => Err(error),
        }
    }

    /// Lists one page of the keys below a prefix, or of the prefixes up to the next slash.
    async fn list_objects(
        &self,
        prefix: String,
        delimited: bool,
        resume: Option<String>,
        doing: Doing,
    ) -> Result<ListObjectsV2Output, BlockError> {
        let resumed = resume.clone();
        let sending = self
            .client
            .list_objects_v2()
            .bucket(&self.bucket)
            .prefix(prefix)
            .set_delimiter(delimited.then(|| "/".to_owned()))
            .set_continuation_token(resume)
            .max_keys(PAGE_KEYS)
            .send();
        let page = match self.ask_sdk(doing, sending).await? {
            ObjectReply::Done(page) => page,
            answer => return Err(self.unexpected_reply(doing, &answer)),
        };
        let next = page.next_continuation_token();
        // Without this check a faulty service would cause an endless loop or a listing that misses
        // blocks.
        if page.is_truncated() == Some(true) && (next.is_none() || next == resumed.as_deref()) {
            let error = "the bucket returned a partial listing without a position to resume at";
            return Err(BlockError::with_cause(BlockErrorKind::Unavailable, doing, error));
        }
        Ok(page)
    }

    /// Waits for a response with a timeout, and translates it. The request is pinned by the caller:
    /// passed by value, it would be copied at every call.
    async fn ask<T>(
        &self,
        within: Duration,
        doing: Doing,
        sending: Pin<&mut (impl Future<Output = Result<T, Failure>> + ?Sized)>,
    ) -> Result<ObjectReply<T>, BlockError> {
        let answer = self.within(within, doing, sending).await?;
        fault::translate(answer, &self.bucket, doing)
    }

    /// As `ask`, for a request of the SDK. Boxed, because its futures take some 17 KiB each.
    fn ask_sdk<'a, T, E>(
        &'a self,
        doing: Doing,
        sending: impl Future<Output = Result<T, SdkError<E>>> + Send + 'a,
    ) -> BoxFuture<'a, Result<ObjectReply<T>, BlockError>>
    where
        T: Send + 'a,
        E: ProvideErrorMetadata + std::error::Error + Send + 'static,
    {
        Box::pin(async move {
            let sending = pin!(async move { sending.await.map_err(Failure::from) });
            self.ask(self.answer_timeout, doing, sending).await
        })
    }

    async fn within<T>(
        &self,
        within: Duration,
        doing: Doing,
        sending: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> Result<T, BlockError> {
        tokio::time::timeout(within, sending).await.map_err(|_| {
            let error = format!("bucket {} did not answer within {within:?}", self.bucket);
            BlockError::with_cause(BlockErrorKind::Unavailable, doing, error)
        })
    }

    fn unexpected_reply<T>(&self, doing: Doing, answer: &ObjectReply<T>) -> BlockError {
        let error = format!("bucket {} answered {}", self.bucket, answer.name());
        BlockError::with_cause(BlockErrorKind::Unavailable, doing, error)
    }
}

impl fmt::Debug for BucketBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketBlocks")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Returns the sealed size (content, header and checksums) in bytes of a block whose object has
/// this many bytes; `None` if no block can have such an object.
fn sealed_size_of(id: BlockId, bytes: u64) -> Option<u64> {
    if id.is_bare() { bare::sealed_size(bytes) } else { Some(bytes) }
}

fn http_client(plain: bool) -> SharedHttpClient {
    let builder = HttpBuilder::new()
        .pool_idle_timeout(IDLE_CONNECTION_MAX)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX);
    if plain {
        // Without TLS the system's certificates are not needed; they may not be installed.
        builder.build_http()
    } else {
        builder.tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https()
    }
}

#[async_trait]
impl BlockStore for BucketBlocks {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        check_encrypted(block)?;
        let doing = Doing::Block("writing", block.id());
        let name = place::name(block.id());
        let bare = block.id().is_bare();
        let sent = if bare {
            Payload { body: block.content().collect(), sums: Some(bare::sums(block)) }
        } else {
            Payload { body: block.pieces().iter().cloned().collect(), sums: None }
        };
        match self.put_object(&name, sent, self.supports_conditional_put(), doing).await? {
            ObjectReply::Done(reported) => Ok(Stored { content_md5: reported.filter(|_| bare) }),
            // A repeated put of the same block must succeed, so the stored bytes are compared.
            ObjectReply::Taken => self.compare(block, doing).await.map(|()| Stored::default()),
            answer => Err(self.unexpected_reply(doing, &answer)),
        }
    }

    fn reports_md5(&self) -> bool {
        self.reports_md5.load(Ordering::Relaxed)
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        if id.is_bare() {
            let (doing, reading) = (Doing::Block("reading", id), pin!(self.collect(id, bytes)));
            return self.within(self.block_timeout, doing, reading).await?;
        }
        let doing = Doing::Block("reading", id);
        let found = self.get_object(&place::name(id), bytes, doing).await?;
        found.ok_or_else(|| BlockError::new(BlockErrorKind::NotFound, doing))
    }

    fn streams(&self) -> bool {
        true
    }

    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        let doing = Doing::Block("reading", id);
        // The object of a bare block has no header and checksums, so its positions differ from
        // those of the sealed bytes.
        let asked = if id.is_bare() { bare::span(&bytes) } else { bytes.clone() };
        let most = asked.end.saturating_sub(asked.start);
        match self.request_range(&place::name(id), asked, doing).await? {
            ObjectReply::Done(found) if id.is_bare() => {
                let whole = found.whole().unwrap_or_default();
                let sums = bare::stored_sums(found.headers()).or_else(|| self.recomputed.sums(id));
                let Some(sums) = sums else {
                    let error = "its object has lost its checksums";
                    return Err(BlockError::with_cause(
                        BlockErrorKind::ChecksumsLost,
                        doing,
                        error,
                    ));
                };
                let zipper = Zipper::new(id, whole, sums, bytes)
                    .map_err(|why| BlockError::with_cause(BlockErrorKind::Corrupt, doing, why))?;
                let body = Body::new(found, most, self.answer_timeout, doing)?;
                Ok(Box::new(Zipped::new(body, zipper)))
            }
            ObjectReply::Done(found) => {
                Ok(Box::new(Body::new(found, most, self.answer_timeout, doing)?))
            }
            ObjectReply::PastEnd => Ok(Box::new(AtOnce(None))),
            ObjectReply::Absent => Err(BlockError::new(BlockErrorKind::NotFound, doing)),
            answer @ ObjectReply::Taken => Err(self.unexpected_reply(doing, &answer)),
        }
    }

    async fn recompute_checksums(&self, block: BlockRef) -> Result<u64, BlockError> {
        let doing = Doing::Block("recomputing the checksums of", block.id);
        let learning = pin!(async {
            let _turn = self.recomputed.lock(block.id).await;
            match self.recomputed.sums(block.id) {
                Some(_) => Ok(0),
                None => self.recompute_from_object(block, doing).await,
            }
        });
        self.within(self.block_timeout, doing, learning).await?
    }

    fn warnings(&self) -> Vec<String> {
        self.findings.warnings(&self.bucket)
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        let doing = Doing::Block("looking for", id);
        let name = place::name(id);
        let asking = pin!(self.objects.head(&name));
        match self.ask(self.answer_timeout, doing, asking).await? {
            ObjectReply::Done(Some(size)) => match sealed_size_of(id, size) {
                Some(size) => Ok(Some(size)),
                None => Err(BlockError::with_cause(
                    BlockErrorKind::Corrupt,
                    doing,
                    format!("its object has {size} bytes"),
                )),
            },
            ObjectReply::Absent => {
                // The response to a HEAD has no error code, and a missing bucket also gives a 404.
                let sending = self.client.head_bucket().bucket(&self.bucket).send();
                match self.ask_sdk(doing, sending).await? {
                    ObjectReply::Done(_) => Ok(None),
                    ObjectReply::Absent | ObjectReply::Taken | ObjectReply::PastEnd => {
                        Err(fault::no_bucket(&self.bucket, doing))
                    }
                }
            }
            answer => Err(self.unexpected_reply(doing, &answer)),
        }
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        let doing = Doing::Block("deleting", id);
        let name = place::name(id);
        let asking = pin!(self.objects.delete(&name));
        match self.ask(self.answer_timeout, doing, asking).await? {
            ObjectReply::Done(()) | ObjectReply::Absent => {
                self.recomputed.forget(id);
                Ok(())
            }
            answer => Err(self.unexpected_reply(doing, &answer)),
        }
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        let doing = Doing::Other("listing the sessions");
        let mut sessions = Vec::new();
        let mut resume = None;
        loop {
            let page = self.list_objects(self.prefix.clone(), true, resume, doing).await?;
            for found in page.common_prefixes() {
                let name = found.prefix().and_then(|name| name.strip_prefix(&self.prefix));
                // Other names in the bucket are not sessions.
                let session: Option<Nonce> =
                    name.and_then(|name| name.strip_suffix('/')?.parse().ok());
                sessions.extend(session);
            }
            if page.is_truncated() != Some(true) {
                sessions.sort_unstable();
                return Ok(sessions);
            }
            resume = page.next_continuation_token;
        }
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        let doing = Doing::Listing(session);
        let prefix = format!("{}{session}/", self.prefix);
        let page = self.list_objects(prefix.clone(), false, resume, doing).await?;
        let mut blocks = Vec::with_capacity(page.contents().len());
        for found in page.contents() {
            let key = found.key().unwrap_or_default();
            let place = key.strip_prefix(&prefix).and_then(|name| name.split_once('/'));
            let id = place.and_then(|(group, id)| place::parse(session, group, id));
            let size = found.size().and_then(|size| u64::try_from(size).ok());
            let size = id.zip(size).and_then(|(id, size)| sealed_size_of(id, size));
            let (Some(id), Some(size)) = (id, size) else {
                let error = format!("{key:?} in bucket {} is not a block: remove it", self.bucket);
                return Err(BlockError::with_cause(BlockErrorKind::Corrupt, doing, error));
            };
            blocks.push((id, size));
        }
        // Some services return a token also with the last page.
        let more = page.is_truncated() == Some(true);
        Ok(BlockPage { blocks, resume: page.next_continuation_token.filter(|_| more) })
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        // One byte more than permitted, to detect a mark that is too long.
        let range = 0..MARK_BYTES_MAX as u64 + 1;
        let found = self.get_object(MARK_NAME, range, Doing::Other(READING_MARK)).await?;
        found.map(check_found_mark).transpose()
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        check_mark(&mark)?;
        // A bucket that does not support conditional writes would overwrite the mark.
        if let Some(standing) = self.mark().await? {
            return compare_marks(&standing, &mark);
        }
        let conditional = self.supports_conditional_put();
        match self
            .put_object(
                MARK_NAME,
                Pieces::from_iter([mark.clone()]),
                conditional,
                Doing::Other(SETTING_MARK),
            )
            .await?
        {
            ObjectReply::Done(_) => Ok(()),
            ObjectReply::Taken => match self.mark().await? {
                Some(standing) => compare_marks(&standing, &mark),
                None => {
                    let error = "the mark was removed meanwhile";
                    Err(BlockError::with_cause(BlockErrorKind::Unavailable, SETTING_MARK, error))
                }
            },
            answer => Err(self.unexpected_reply(Doing::Other(SETTING_MARK), &answer)),
        }
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        if self.mark().await?.as_ref() != Some(&mark) {
            return Ok(());
        }
        let doing = Doing::Other(REMOVING_MARK);
        let asking = pin!(self.objects.delete(MARK_NAME));
        match self.ask(self.answer_timeout, doing, asking).await? {
            ObjectReply::Done(()) | ObjectReply::Absent => Ok(()),
            answer => Err(self.unexpected_reply(doing, &answer)),
        }
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.run_probe().await
    }
}
