//! One authenticated request, as operations see it, and the checks of its permissions.
//!
//! [`Call`] has the parsed request, its sender, the rules of its bucket, and the required
//! permissions. Most operations check permissions before they start. Three cases check later or
//! twice:
//!
//! - A policy that depends on the body (for example on the tags in it) is evaluated when the body
//!   has arrived: [`Call::require_permissions_with_body`].
//! - A policy that depends on the replaced object is evaluated again after the body, because the
//!   object may have changed meanwhile: [`Call::checks_after_body`].
//! - An operation that looked up an object checks the permissions for this same object:
//!   [`Call::check_object`].
//!
//! For example, a bucket policy denies writes to objects with the tag `locked=yes`. A PUT takes
//! minutes. If another client adds the tag meanwhile, the check after the body refuses the PUT.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use identity::{Sender, UMASK_DEFAULT};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use record::{AccountId, ObjectOwnership};
use rules::{BucketRules, RulesCache};
use s3::acl::{CannedAcl, RequestedAcl};
use s3::operation::{Demand, Permission, RequestFacts};
use s3::request::PostObject;
use s3::request::{Arguments, Fields, Query};
use s3::response::Owner;
use s3::{BucketName, Code, CopySource, Fault, ObjectKey, Operation, S3Resource, VersionId};
use volume::{FileOwner, FsError, NamedBucket, Object, Volume, VolumeError};

use crate::documents::DocumentBudgets;
use crate::http::DeletedKeys;
use crate::place::Place;
use crate::sending::OutgoingBodies;
use crate::settings::Settings;
use crate::translate;

/// A request with the parts of the gateway that its operation uses.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) volume: &'a Arc<Volume>,
    pub(crate) sender: &'a Sender<'a>,
    /// The rules of the request's bucket; `None` if the request names no bucket or creates one.
    pub(crate) rules: Option<Arc<BucketRules>>,
    /// The rules of all buckets, for the source bucket of a copy.
    pub(crate) all_rules: &'a RulesCache,
    pub(crate) settings: &'a Settings,
    pub(crate) sending: &'a Arc<OutgoingBodies>,
    /// Memory for incoming XML documents and for the values parsed from them.
    pub(crate) documents: &'a DocumentBudgets,
    /// The place of the request among those in flight, which it gives up while it waits for memory.
    pub(crate) place: Option<&'a Place>,
    pub(crate) operation: Operation,
    pub(crate) resource: &'a S3Resource,
    pub(crate) query: &'a Query,
    /// The HTTP version. HTTP/2 allows a body without a length.
    pub(crate) version: http::Version,
    pub(crate) headers: &'a HeaderMap,
    /// The host to which the request was sent.
    pub(crate) host: &'a RequestHost<'a>,
    /// The permissions that the request requires.
    pub(crate) demanded: &'a Demand,
    /// The parsed form, if the request is an HTML form upload.
    pub(crate) form: Option<&'a PostObject>,
    /// The number of content bytes that have arrived, without chunk headers and trailers.
    pub(crate) bytes_in: &'a AtomicU64,
    /// The keys of a `DeleteObjects`, for the access log; `None` for other operations.
    pub(crate) deleted: Option<&'a DeletedKeys>,
}

/// The host to which a request was sent.
#[derive(Clone, Debug)]
pub(crate) struct RequestHost<'a> {
    /// The host name, with a port if there is one.
    pub(crate) name: Option<Cow<'a, str>>,
    /// True if the host name contains the bucket (virtual-hosted style).
    pub(crate) names_bucket: bool,
}

impl RequestHost<'_> {
    /// Returns the URL of an object on this host, with `https` if `tls` is true. `key` is
    /// percent-encoded.
    fn url(&self, tls: bool, bucket: &BucketName, key: &str) -> String {
        let scheme = if tls { "https" } else { "http" };
        // A `Host` header with characters that no host name has is not copied into the response.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        let host = self.name.as_deref().filter(|host| host.bytes().all(plain));
        let host = host.unwrap_or("localhost");
        if self.names_bucket {
            format!("{scheme}://{host}/{key}")
        } else {
            format!("{scheme}://{host}/{bucket}/{key}")
        }
    }
}

/// The characters of an object key that remain unescaped in the path of a URL; all others are
/// percent-encoded.
const KEY_KEEPS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

impl<'a> Call<'a> {
    /// Adds `bytes` to the number of content bytes of the request that have arrived.
    pub(crate) fn count_in(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the URL of the object that the request names, in the style of the request.
    pub(crate) fn location(&self) -> Result<String, Fault> {
        let (bucket, key) = self.object()?;
        let key = utf8_percent_encode(key.as_str(), KEY_KEEPS).to_string();
        Ok(self.location_of(bucket, &key))
    }

    /// Returns the URL of an object of the request's bucket, in the style of the request. `key` is
    /// percent-encoded.
    pub(crate) fn location_of(&self, bucket: &BucketName, key: &str) -> String {
        let tls = self.sender.origin.client.is_some_and(|client| client.tls.is_some());
        self.host.url(tls, bucket, key)
    }

    /// Fails with `AccessDenied` if the client lacks one of these permissions, if it is anonymous
    /// and S3 refuses this operation to anonymous clients, or if the source bucket of a copy
    /// belongs to another account than the request expects.
    pub(crate) async fn require_permissions(
        &self,
        permissions: &[Permission],
    ) -> Result<(), Fault> {
        // Cheap checks come first: the permissions may need a lookup of an object.
        self.check_signed()?;
        self.check_source_owner().await?;
        for permission in permissions {
            self.require_permission(permission).await?;
        }
        Ok(())
    }

    /// As [`Call::require_permissions`], for an operation on one object that the caller has looked
    /// up; `None` if it does not exist. Does not check the owner of a copy's source.
    pub(crate) async fn require_permissions_for_object(
        &self,
        permissions: &[Permission],
        object: Option<&Object>,
    ) -> Result<(), Fault> {
        self.check_signed()?;
        for permission in permissions {
            // A permission for another object, for example a copy source, needs its own lookup.
            if permission.resource != *self.resource {
                self.require_permission(permission).await?;
            } else if !self.sender.is_allowed(permission, Some(self.rules()?), object) {
                return Err(Code::AccessDenied.into());
            }
        }
        Ok(())
    }

    /// Returns true if one of these permissions depends on the object that the request names: a
    /// policy uses its tags or its lock, or ACLs are enabled in the bucket.
    pub(crate) fn depends_on_object(&self, permissions: &[Permission]) -> Result<bool, Fault> {
        let rules = self.rules()?;
        Ok(permissions.iter().any(|permission| self.sender.depends_on_object(permission, rules)))
    }

    /// Returns true if the permissions of the request depend on the object that a write replaces,
    /// for example on its tags. The write then checks permissions again after its body. A body may
    /// take minutes, and another client can replace the object meanwhile.
    pub(crate) fn checks_after_body(&self) -> Result<bool, Fault> {
        self.depends_on_object(self.permissions())
    }

    /// Fails if the request is anonymous and S3 refuses the operation to anonymous clients.
    fn check_signed(&self) -> Result<(), Fault> {
        match self.operation.anonymous_refusal() {
            Some(why) if self.sender.identity.is_none() => {
                Err(Fault::because(Code::AccessDenied, why))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Fails with `AccessDenied` if the client lacks a permission.
    pub(crate) async fn require_permission(&self, permission: &Permission) -> Result<(), Fault> {
        let own = self.rules.as_ref();
        let rules = match permission.resource.bucket() {
            None => None,
            Some(bucket) if self.resource.bucket() == Some(bucket) => own.cloned(),
            // The source bucket of a copy.
            Some(bucket) => Some(self.rules_of(bucket).await?),
        };
        let allowed = self.sender.has_permission(permission, rules.as_deref()).await;
        // Only the lookup of an object can fail, and its bucket is then known.
        let allowed = allowed.map_err(|error| match permission.resource.bucket() {
            Some(bucket) => translate::bucket_fault(bucket, error),
            None => translate::fault(error),
        });
        if allowed? { Ok(()) } else { Err(Code::AccessDenied.into()) }
    }

    /// Returns true if the client has a permission in the request's bucket. `object` is the object
    /// of the permission. It may be `None` if the permission does not depend on the object, or if
    /// the object does not exist.
    pub(crate) fn is_allowed(
        &self,
        permission: &Permission,
        object: Option<&Object>,
    ) -> Result<bool, Fault> {
        Ok(self.sender.is_allowed(permission, Some(self.rules()?), object))
    }

    /// Returns the fault for a missing object or version, which is `fault` if the client may list
    /// the bucket. If it must not, it gets `AccessDenied` instead: "If you don't have the
    /// `s3:ListBucket` permission, Amazon S3 returns … 403" (API reference, `GetObject`).
    pub(crate) async fn hide_absence(&self, bucket: &BucketName, fault: Fault) -> Fault {
        match self.require_permission(&Permission::on_bucket("s3:ListBucket", bucket)).await {
            Ok(()) => fault,
            Err(refusal) => refusal,
        }
    }

    /// Adds the elements that S3 puts into an error: the missing key, version or upload.
    pub(crate) fn with_elements(&self, fault: Fault) -> Fault {
        let key = self.resource.key().map_or("", ObjectKey::as_str);
        let parameter = |name| self.query.get(name).ok().flatten().unwrap_or_default();
        // The fault of a copy's source has its elements already.
        let has_elements = fault.extra.iter().any(|(element, _)| *element == "Key");
        #[expect(clippy::wildcard_enum_match_arm, reason = "no other code needs an element here")]
        match fault.code {
            Code::NoSuchKey if !has_elements => fault.with("Key", key),
            Code::NoSuchVersion if !has_elements => {
                fault.with("Key", key).with("VersionId", parameter("versionId"))
            }
            Code::NoSuchUpload => fault.with("UploadId", parameter("uploadId")),
            Code::MethodNotAllowed if is_about_marker(&fault) => {
                let line = self.operation.request_line();
                fault.with("Method", line.split(' ').next().unwrap_or_default())
            }
            _ => fault,
        }
    }

    /// Fails if the client lacks a required permission for `object`. The first check may have seen
    /// another object under the same key. `version` is the version that the request names.
    pub(crate) fn check_object(
        &self,
        object: &Object,
        (bucket, key, version): (&BucketName, &ObjectKey, Option<&VersionId>),
        rules: &BucketRules,
    ) -> Result<(), Fault> {
        // Another bucket may have the name now. Its rules were not checked.
        if object.bucket != rules.ino {
            return Err(no_such_bucket(bucket));
        }
        // `require_permissions_with_body` checks permissions that depend on the body.
        let (Demand::All(permissions) | Demand::WithUpload(permissions)) = self.demanded else {
            return Ok(());
        };
        // The first check has decided by the same rules about each permission that does not depend
        // on an object. The rules of a copy's source may be others.
        let same_rules = self.rules.as_deref().is_some_and(|own| std::ptr::eq(own, rules));
        let is_open = |permission: &&Permission| {
            !same_rules || self.sender.depends_on_object(permission, rules)
        };
        let names_object = |permission: &&Permission| match &permission.resource {
            S3Resource::Object(of, at) => {
                of == bucket && at == key && permission.version.as_ref() == version
            }
            S3Resource::Bucket(_) | S3Resource::Service => false,
        };
        let may = |permission| self.sender.is_allowed(permission, Some(rules), Some(object));
        let all = permissions.iter().filter(names_object).filter(is_open).all(may);
        if all { Ok(()) } else { Err(Code::AccessDenied.into()) }
    }

    /// Returns the rules of any bucket, for example of the source of a copy. Faults:
    /// `NoSuchBucket`; `InternalError` if a configuration of the bucket cannot be parsed.
    pub(crate) async fn rules_of(&self, bucket: &BucketName) -> Result<Arc<BucketRules>, Fault> {
        let rules = self.all_rules.get(self.volume, bucket).await;
        rules.map_err(|error| translate::rules_fault(bucket, error))
    }

    /// Fails with `NoSuchBucket` if the bucket was deleted, or created again under the same name,
    /// since the request began. The cached record of the bucket decides, so this needs no round
    /// trip. Called after a wait for a body.
    pub(crate) async fn check_bucket(&self) -> Result<(), Fault> {
        let (Some(rules), Some(name)) = (&self.rules, self.resource.bucket()) else {
            return Ok(());
        };
        let now = self.rules_of(name).await?;
        if now.ino == rules.ino { Ok(()) } else { Err(no_such_bucket(name)) }
    }

    /// Fails if the client lacks one of the permissions for a step of a multipart upload. A policy
    /// may depend on values of the request that created the upload; these come from the upload's
    /// record. If the upload does not exist, there are no such values.
    pub(crate) async fn require_permissions_for_upload(
        &self,
        permissions: &[Permission],
    ) -> Result<(), Fault> {
        if !self.sender.depends_on_upload(self.rules.as_deref()) {
            return self.require_permissions(permissions).await;
        }
        let (bucket, key) = self.object()?;
        let id = self.query.get("uploadId")?.and_then(|id| id.parse().ok());
        // A malformed id names no upload, so the policies see no values. The operation reports the
        // error to clients with the permission.
        let Some(id) = id else { return self.require_permissions(permissions).await };
        let upload = match self
            .volume
            .upload_in_any_state(bucket.as_str(), key.as_str().as_bytes(), id)
            .await
        {
            Ok(upload) => upload,
            Err(VolumeError::Fs(FsError::NoSuchUpload)) => {
                return self.require_permissions(permissions).await;
            }
            Err(error) => return Err(translate::bucket_fault(bucket, error)),
        };
        let mut permissions = permissions.to_vec();
        for permission in &mut permissions {
            // Only the permission to write the object uses the values of the upload.
            if permission.facts.creates_object.is_some() {
                permission.facts.continue_upload(&upload.asked);
            }
        }
        self.require_permissions(&permissions).await
    }

    /// Checks permissions before the body is read, unless a policy depends on a value that the body
    /// may contain. [`Call::require_permissions_with_body`] checks after the body.
    pub(crate) async fn require_permissions_before_body(
        &self,
        permissions: &[Permission],
    ) -> Result<(), Fault> {
        if self.sender.depends_on_body(self.rules.as_deref())
            && !self.is_anonymous_in_private_bucket()
        {
            return Ok(());
        }
        self.require_permissions(permissions).await
    }

    /// Fails if the client lacks one of the permissions of its request. `learn` adds the values
    /// that the parsed body contains for condition keys of policies, for example the tags in it.
    pub(crate) async fn require_permissions_with_body(
        &self,
        learn: impl Fn(&mut RequestFacts),
    ) -> Result<(), Fault> {
        self.require_permissions(&self.permissions_with_body(learn)?).await
    }

    /// Returns the permissions of the request, after its body has arrived. `learn` adds the values
    /// that the parsed body contains for condition keys of policies.
    pub(crate) fn permissions_with_body(
        &self,
        learn: impl Fn(&mut RequestFacts),
    ) -> Result<Vec<Permission>, Fault> {
        let Demand::WithBody(permissions) = self.demanded else {
            return Err(Code::InternalError.into());
        };
        let mut permissions = permissions.clone();
        permissions.iter_mut().for_each(|permission| learn(&mut permission.facts));
        Ok(permissions)
    }

    /// Returns the permissions of a request whose body has no values for condition keys.
    pub(crate) fn permissions(&self) -> &'a [Permission] {
        match self.demanded {
            Demand::All(permissions)
            | Demand::WithBody(permissions)
            | Demand::WithUpload(permissions) => permissions,
            Demand::Nothing | Demand::FromBody => &[],
        }
    }

    /// Returns true if the request is anonymous and its bucket admits only the account of the
    /// bucket's owner, because it has no bucket policy and its ACLs are disabled. Also returns true
    /// for an anonymous request without rules of a bucket.
    pub(crate) fn is_anonymous_in_private_bucket(&self) -> bool {
        let private = self.rules.as_ref().is_none_or(|rules| rules.is_private());
        self.sender.identity.is_none() && private
    }

    /// Fails with `AccessDenied` if the source bucket of a copy belongs to another account than the
    /// one in `x-amz-source-expected-bucket-owner`.
    async fn check_source_owner(&self) -> Result<(), Fault> {
        if !matches!(self.operation, Operation::CopyObject | Operation::UploadPartCopy) {
            return Ok(());
        }
        let fields = self.fields();
        let Some(expected) = fields.get("x-amz-source-expected-bucket-owner")? else {
            return Ok(());
        };
        let source = CopySource::parse(fields.get("x-amz-copy-source")?.unwrap_or_default())?;
        let rules = self.rules_of(&source.bucket).await?;
        check_owner(expected, &rules.account)
    }

    /// Fails with `AccessDenied` if the bucket belongs to another account than the one in
    /// `x-amz-expected-bucket-owner`.
    pub(crate) fn check_owners(&self) -> Result<(), Fault> {
        let expected = self.fields().get("x-amz-expected-bucket-owner")?;
        match (expected, &self.rules) {
            (Some(expected), Some(rules)) => check_owner(expected, &rules.account),
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    /// Returns the rules of the request's bucket, that is, its settings and configurations. Each
    /// operation on an existing bucket has them. Fails with `InvalidRequest` without them.
    pub(crate) fn rules(&self) -> Result<&BucketRules, Fault> {
        self.rules.as_deref().ok_or(Code::InvalidRequest.into())
    }

    /// Returns the bucket. Each operation on a bucket has one, because requests are routed by their
    /// resource.
    pub(crate) fn bucket(&self) -> Result<&'a BucketName, Fault> {
        self.resource.bucket().ok_or(Code::InvalidRequest.into())
    }

    /// Returns the name of the request's bucket with the inode number that the bucket had when the
    /// permissions were checked. If a new bucket has the name since then, the operation fails,
    /// because the permissions do not cover the new bucket.
    pub(crate) fn named_bucket(&self) -> Result<NamedBucket<'a>, Fault> {
        let name = self.bucket()?.as_str().as_bytes();
        Ok(NamedBucket { name, ino: Some(self.rules()?.ino) })
    }

    /// Returns the bucket and the key of the object that the request names. Each operation on an
    /// object has both.
    pub(crate) fn object(&self) -> Result<(&'a BucketName, &'a ObjectKey), Fault> {
        match self.resource {
            S3Resource::Object(bucket, key) => Ok((bucket, key)),
            S3Resource::Bucket(_) | S3Resource::Service => Err(Code::InvalidRequest.into()),
        }
    }

    pub(crate) fn fields(&self) -> Fields<'a> {
        Fields::new(self.headers, self.sender.verified.hoisted())
    }

    pub(crate) fn arguments(&self) -> Arguments<'a> {
        let anonymous = self.sender.identity.is_none();
        Arguments { query: self.query, fields: self.fields(), anonymous }
    }

    /// Returns the owner for an object that this request creates. `acl` is the ACL in the request's
    /// headers. If ACLs are enabled in the
    /// bucket, the writer is the owner, unless the writer gives the object to the bucket's owner.
    /// Otherwise the bucket's owner is the owner.
    pub(crate) fn owner(&self, acl: Option<&RequestedAcl>) -> Result<FileOwner, Fault> {
        let rules = self.rules()?;
        let account = self.sender.account();
        let to_bucket_owner = acl == Some(&RequestedAcl::Canned(CannedAcl::BucketOwnerFullControl));
        let writer_owns = match rules.settings.ownership {
            Some(ObjectOwnership::BucketOwnerEnforced) => false,
            Some(ObjectOwnership::BucketOwnerPreferred) => !to_bucket_owner,
            Some(ObjectOwnership::ObjectWriter) | None => true,
        };
        let writer = (writer_owns && account != rules.settings.owner).then_some(account);
        Ok(match &self.sender.identity {
            Some(identity) => FileOwner {
                access_key: identity.access_key.clone(),
                account,
                writer,
                uid: identity.uid,
                gid: identity.gid,
                umask: identity.umask,
            },
            None => FileOwner {
                access_key: String::new(),
                account,
                writer,
                uid: NOBODY,
                gid: NOBODY,
                umask: UMASK_DEFAULT,
            },
        })
    }

    /// Returns the owner of an object as S3 shows it. `writer` is the owner if it is not the
    /// bucket's owner.
    pub(crate) fn owner_of(&self, writer: Option<AccountId>) -> Result<Owner, Fault> {
        Ok(self.sender.access.owner(writer.unwrap_or(self.rules()?.settings.owner)))
    }
}

/// Returns true if a fault, an error on the wire, reveals that an object or version does not exist,
/// or that the key has a delete marker.
pub(crate) fn reveals_absence(fault: &Fault) -> bool {
    matches!(fault.code, Code::NoSuchKey | Code::NoSuchVersion)
        || fault.code == Code::MethodNotAllowed && is_about_marker(fault)
}

/// Returns true if a fault is about a delete marker, the version that records a deletion.
fn is_about_marker(fault: &Fault) -> bool {
    fault.extra.iter().any(|(element, what)| *element == "ResourceType" && what == "DeleteMarker")
}

pub(crate) fn no_such_bucket(bucket: &BucketName) -> Fault {
    Fault::new(Code::NoSuchBucket).with("BucketName", bucket.as_str())
}

/// Fails with `AccessDenied` if the bucket's account is not the expected one. A malformed account
/// number never matches.
fn check_owner(expected: &str, account: &str) -> Result<(), Fault> {
    if expected == account { Ok(()) } else { Err(Code::AccessDenied.into()) }
}

/// The user and group that own files of anonymous clients.
pub(crate) const NOBODY: u32 = 65_534;

#[cfg(test)]
mod tests;
