//! The state that all requests share.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use admin::Admin;
use audit::{Activity, AuditLog};
use block::BlockStore;
use bytes::Bytes;
use gateway::{Gateway, HttpBody};
use http::Response;
use identity::Access;
use maintained::MaintainedVolume;
use serde_json::Value;
use store::MetaStore;
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio::time::Instant;
use volume::Volume;

use crate::jobs::{JobParts, Jobs};
use crate::s3_call::{self, S3Call, S3Reply};
use crate::streams::Streams;
use crate::{Actor, ApiError};

/// The limit of archives that this gateway makes at the same time.
pub(crate) const ARCHIVES_MAX: usize = 8;

/// The number of locks of buckets. Buckets whose names have one hash share a lock.
const BUCKET_LOCKS: usize = 64;

/// Facts about the process, which the program knows and the stores do not.
pub struct ProcessFacts {
    /// The version of the program.
    pub version: String,
    /// The commit from which the program was built; empty if the build does not know it.
    pub commit: String,
    /// The region that clients sign with.
    pub region: String,
    /// The place of the metadata store, without secrets.
    pub metadata_place: String,
    /// The place of the block store, without secrets.
    pub blocks_place: String,
    /// Returns the current durability of the metadata store: `strict` or `relaxed`.
    pub durability: Box<dyn Fn() -> String + Send + Sync>,
    /// The settings in force, without secrets.
    pub settings: Value,
    /// The folder for dumps of the metadata.
    pub dumps: PathBuf,
}

impl fmt::Debug for ProcessFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessFacts").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The parts of a process on which the API works.
#[derive(Debug)]
pub struct Parts {
    /// The volume with its upkeep.
    pub volume: MaintainedVolume,
    /// The metadata store.
    pub meta: Arc<dyn MetaStore>,
    /// The gateway, which carries out operations of S3 for the API.
    pub gateway: Arc<Gateway>,
    /// The accounts, access keys and policies in force.
    pub access: Arc<Access>,
    /// The administration, within the volume.
    pub admin: Admin,
    /// The block store.
    pub blocks: Arc<dyn BlockStore>,
    /// The requests of S3 to this process.
    pub activity: Arc<Activity>,
    /// The access log, whose entries are events of streams.
    pub log: Arc<AuditLog>,
    /// Facts about the process.
    pub facts: ProcessFacts,
}

/// The administration of a volume for clients over HTTP and for the console.
#[derive(Debug)]
pub struct AdminApi {
    pub(crate) volume: Arc<Volume>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) access: Arc<Access>,
    pub(crate) admin: Admin,
    pub(crate) blocks: Arc<dyn BlockStore>,
    pub(crate) facts: ProcessFacts,
    pub(crate) activity: Arc<Activity>,
    pub(crate) log: Arc<AuditLog>,
    pub(crate) streams: Streams,
    pub(crate) archives: Arc<Semaphore>,
    pub(crate) jobs: Jobs,
    /// Held while a user with a limit of jobs starts one, so that two requests do not pass it at
    /// once.
    pub(crate) limited_jobs: Mutex<()>,
    pub(crate) started: Instant,
    bucket_locks: [Mutex<()>; BUCKET_LOCKS],
    pub(crate) openapi: OnceLock<Value>,
}

impl AdminApi {
    /// Returns the API over the parts of a process.
    pub fn new(parts: Parts) -> AdminApi {
        let Parts { volume, meta, gateway, access, admin, blocks, activity, log, facts } = parts;
        let jobs = Jobs::new(JobParts {
            admin: admin.clone(),
            volume: volume.clone(),
            gateway: Arc::clone(&gateway),
            access: Arc::clone(&access),
            meta,
            blocks: Arc::clone(&blocks),
            dumps: facts.dumps.clone(),
        });
        AdminApi {
            activity,
            log,
            streams: Streams::new(),
            archives: Arc::new(Semaphore::new(ARCHIVES_MAX)),
            jobs,
            limited_jobs: Mutex::new(()),
            volume: Arc::clone(&volume),
            gateway,
            access,
            admin,
            blocks,
            facts,
            started: Instant::now(),
            bucket_locks: std::array::from_fn(|_| Mutex::new(())),
            openapi: OnceLock::new(),
        }
    }

    /// Waits until no other change of a configuration of this bucket runs here, so that a change
    /// that reads the configuration first loses no other one. Changes of other gateways are not
    /// excluded.
    pub(crate) async fn lock_bucket(&self, bucket: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        bucket.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % BUCKET_LOCKS as u64).unwrap_or(0);
        self.bucket_locks[at].lock().await
    }

    /// Sends a request to the gateway in the name of the sender, and returns the response as it
    /// arrives. The caller streams its body. An error of S3 is a response, too.
    pub async fn stream_s3(
        &self,
        actor: &Actor<'_>,
        call: &S3Call<'_>,
        body: HttpBody,
    ) -> Result<Response<HttpBody>, ApiError> {
        s3_call::stream(&self.gateway, actor, call, body).await
    }

    /// Sends a request to the gateway in the name of the sender, and returns the whole response.
    /// Fails with the error of S3.
    pub async fn s3(
        &self,
        actor: &Actor<'_>,
        call: &S3Call<'_>,
        body: Bytes,
    ) -> Result<S3Reply, ApiError> {
        s3_call::send(&self.gateway, actor, call, body).await
    }

    /// Ends the streams and the jobs of this gateway, and waits for the ends of jobs. Call this
    /// before the session ends.
    pub async fn end(&self) {
        self.streams.end();
        self.jobs.end().await;
    }

    /// Returns the region that clients sign with.
    pub fn region(&self) -> &str {
        &self.facts.region
    }

    /// Returns the volume.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Returns the accounts, access keys and policies in force.
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }
}
