//! One request that has been authenticated and authorised.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use content::ByteBudget;
use http::HeaderMap;
use s3::operation::Permission;
use s3::request::{Arguments, Fields, Query};
use s3::{BucketName, Code, Fault, ObjectKey, Operation, S3Resource};
use volume::{FileOwner, Volume};

use crate::access::{Access, Identity, UMASK_DEFAULT};
use crate::sending::OutgoingBodies;
use crate::settings::Settings;

/// What an operation knows of its request, and what it may use to carry it out.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) volume: &'a Arc<Volume>,
    pub(crate) access: &'a Access,
    pub(crate) settings: &'a Settings,
    pub(crate) sending: &'a Arc<OutgoingBodies>,
    /// Memory for XML documents that arrive, and for what is parsed from them.
    pub(crate) documents: &'a ByteBudget,
    pub(crate) operation: Operation,
    pub(crate) resource: &'a S3Resource,
    pub(crate) query: &'a Query,
    pub(crate) version: http::Version,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) hoisted: &'a [(String, String)],
    pub(crate) verified: &'a s3::auth::Verified,
    pub(crate) identity: Option<Arc<Identity>>,
    /// Content bytes that arrived.
    pub(crate) bytes_in: &'a AtomicU64,
}

impl<'a> Call<'a> {
    /// Counts content that arrived.
    pub(crate) fn count_in(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Refuses a client that lacks one of these permissions. This is for operations that learn only
    /// while they run which permissions they need.
    pub(crate) fn demand(&self, permissions: &[Permission]) -> Result<(), Fault> {
        let may = |permission| self.access.authorise(self.identity.as_deref(), permission);
        if permissions.iter().all(may) { Ok(()) } else { Err(Code::AccessDenied.into()) }
    }

    /// The bucket. An operation on a bucket always has one, because requests are routed by their
    /// resource.
    pub(crate) fn bucket(&self) -> Result<&'a BucketName, Fault> {
        self.resource.bucket().ok_or(Code::InvalidRequest.into())
    }

    /// The bucket and the key.
    pub(crate) fn object(&self) -> Result<(&'a BucketName, &'a ObjectKey), Fault> {
        match self.resource {
            S3Resource::Object(bucket, key) => Ok((bucket, key)),
            S3Resource::Bucket(_) | S3Resource::Service => Err(Code::InvalidRequest.into()),
        }
    }

    pub(crate) fn fields(&self) -> Fields<'a> {
        Fields::new(self.headers, self.hoisted)
    }

    pub(crate) fn arguments(&self) -> Arguments<'a> {
        let anonymous = self.identity.is_none();
        Arguments { query: self.query, fields: self.fields(), anonymous }
    }

    /// The owner of what this request creates.
    pub(crate) fn owner(&self) -> FileOwner {
        match &self.identity {
            Some(identity) => FileOwner {
                access_key: identity.access_key.clone(),
                uid: identity.uid,
                gid: identity.gid,
                umask: identity.umask,
            },
            None => FileOwner {
                access_key: String::new(),
                uid: NOBODY,
                gid: NOBODY,
                umask: UMASK_DEFAULT,
            },
        }
    }
}

/// Refuses a version that cannot exist: no bucket keeps any but the current one.
pub(crate) fn only_current(version: Option<&s3::VersionId>) -> Result<(), Fault> {
    match version {
        None | Some(s3::VersionId::Null) => Ok(()),
        Some(s3::VersionId::Other(_)) => Err(Code::NoSuchVersion.into()),
    }
}

/// The user and group that own what anonymous clients create.
const NOBODY: u32 = 65_534;
