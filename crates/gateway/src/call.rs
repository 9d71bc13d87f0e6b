//! One request that has been authenticated and authorised.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use record::{AccountId, ObjectOwnership};
use s3::acl::{CannedAcl, RequestedAcl};
use s3::operation::{Demand, Permission, RequestFacts};
use s3::request::PostObject;
use s3::request::{Arguments, Fields, Query};
use s3::response::Owner;
use s3::{BucketName, Code, CopySource, Fault, ObjectKey, Operation, S3Resource, VersionId};
use volume::{FileOwner, FsError, NamedBucket, Object, Volume, VolumeError};

use crate::access::UMASK_DEFAULT;
use crate::documents::DocumentBudgets;
use crate::rules::{BucketRules, RulesCache};
use crate::sender::Sender;
use crate::sending::OutgoingBodies;
use crate::settings::Settings;
use crate::translate;

/// What an operation knows of its request, and what it may use to carry it out.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) volume: &'a Arc<Volume>,
    pub(crate) sender: &'a Sender<'a>,
    /// What the bucket says about who may do what to it, if the request is about one that there is.
    pub(crate) rules: Option<Arc<BucketRules>>,
    pub(crate) all_rules: &'a RulesCache,
    pub(crate) settings: &'a Settings,
    pub(crate) sending: &'a Arc<OutgoingBodies>,
    /// Memory for XML documents that arrive, and for what is parsed from them.
    pub(crate) documents: &'a DocumentBudgets,
    pub(crate) operation: Operation,
    pub(crate) resource: &'a S3Resource,
    pub(crate) query: &'a Query,
    pub(crate) version: http::Version,
    pub(crate) headers: &'a HeaderMap,
    /// Where the request was sent.
    pub(crate) host: &'a RequestHost,
    /// What the request demands.
    pub(crate) demanded: &'a Demand,
    /// The form that the request is, if it is one.
    pub(crate) form: Option<&'a PostObject>,
    /// Content bytes that arrived.
    pub(crate) bytes_in: &'a AtomicU64,
}

/// The host that a request was sent to.
#[derive(Clone, Debug)]
pub(crate) struct RequestHost {
    /// Its name, with a port if there is one.
    pub(crate) name: Option<String>,
    /// Whether it names the bucket.
    pub(crate) names_bucket: bool,
}

/// What stands in a URL's path as it is.
const KEY_KEEPS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

impl<'a> Call<'a> {
    /// Counts content that arrived.
    pub(crate) fn count_in(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The URL of the object that the request is about, as its client may ask for it.
    pub(crate) fn location(&self) -> Result<String, Fault> {
        let (bucket, key) = self.object()?;
        let tls = self.sender.client.is_some_and(|client| client.tls.is_some());
        let scheme = if tls { "https" } else { "http" };
        let key = utf8_percent_encode(key.as_str(), KEY_KEEPS);
        // What no host is called does not go into an answer.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        let host = self.host.name.as_deref().filter(|host| host.bytes().all(plain));
        let host = host.unwrap_or("localhost");
        Ok(if self.host.names_bucket {
            format!("{scheme}://{host}/{key}")
        } else {
            format!("{scheme}://{host}/{bucket}/{key}")
        })
    }

    /// Refuses a client that lacks one of these permissions, and one that has not signed what S3
    /// lets nobody do who has not.
    pub(crate) async fn demand(&self, permissions: &[Permission]) -> Result<(), Fault> {
        self.check_signed()?;
        self.check_source_owner().await?;
        for permission in permissions {
            self.demand_one(permission).await?;
        }
        Ok(())
    }

    /// As [`Call::demand`], for an operation on one object that is at hand; none if there is none.
    pub(crate) async fn demand_about(
        &self,
        permissions: &[Permission],
        object: Option<&Object>,
    ) -> Result<(), Fault> {
        self.check_signed()?;
        for permission in permissions {
            if permission.resource != *self.resource {
                self.demand_one(permission).await?;
            } else if !self.sender.rule(permission, Some(self.rules()?), object) {
                return Err(Code::AccessDenied.into());
            }
        }
        Ok(())
    }

    /// Returns true if one of the permissions depends on the object that the request names.
    pub(crate) fn object_decides(&self, permissions: &[Permission]) -> Result<bool, Fault> {
        let rules = self.rules()?;
        Ok(permissions.iter().any(|permission| self.sender.object_decides(permission, rules)))
    }

    /// Returns true if the permissions depend on the object that a write replaces. The write then asks
    /// again when its body has arrived, which may take minutes: meanwhile another client can put
    /// another object in its place.
    pub(crate) fn asks_after_body(&self) -> Result<bool, Fault> {
        self.object_decides(self.permissions())
    }

    /// Refuses a request that is not signed, for operations that S3 refuses to anonymous clients.
    fn check_signed(&self) -> Result<(), Fault> {
        match self.operation.anonymous_refusal() {
            Some(why) if self.sender.identity.is_none() => {
                Err(Fault::because(Code::AccessDenied, why))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a client that lacks a permission.
    pub(crate) async fn demand_one(&self, permission: &Permission) -> Result<(), Fault> {
        let own = self.rules.as_ref();
        let rules = match permission.resource.bucket() {
            None => None,
            Some(bucket) if self.resource.bucket() == Some(bucket) => own.cloned(),
            // Of a copy, where it comes from.
            Some(bucket) => Some(self.all_rules.of(self.volume, bucket).await?),
        };
        if self.sender.may(permission, rules.as_deref()).await? {
            Ok(())
        } else {
            Err(Code::AccessDenied.into())
        }
    }

    /// Whether the client has a permission about an object of the request's bucket that is at hand.
    pub(crate) fn may_with(&self, permission: &Permission, object: &Object) -> Result<bool, Fault> {
        Ok(self.sender.rule(permission, Some(self.rules()?), Some(object)))
    }

    /// Returns true if the client has a permission about the object that the request names, which is
    /// at hand if the permission depends on it.
    pub(crate) fn may_about(
        &self,
        permission: &Permission,
        object: Option<&Object>,
    ) -> Result<bool, Fault> {
        Ok(self.sender.rule(permission, Some(self.rules()?), object))
    }

    /// The fault of a request whose object, or version of an object, is not there. A client that may
    /// not list the bucket gets `AccessDenied` in its place: "If you don't have the `s3:ListBucket`
    /// permission, Amazon S3 returns … 403" (API reference, `GetObject`).
    pub(crate) async fn hidden(&self, bucket: &BucketName, fault: Fault) -> Fault {
        match self.demand_one(&Permission::on_bucket("s3:ListBucket", bucket)).await {
            Ok(()) => fault,
            Err(refusal) => refusal,
        }
    }

    /// Adds to a fault what S3 names with it: the key, the version or the upload that is not there.
    pub(crate) fn named(&self, fault: Fault) -> Fault {
        let key = self.resource.key().map_or("", ObjectKey::as_str);
        let asked = |name| self.query.get(name).ok().flatten().unwrap_or_default();
        // That of a copy's source has its names already.
        let is_named = fault.extra.iter().any(|(element, _)| *element == "Key");
        #[expect(clippy::wildcard_enum_match_arm, reason = "no other code needs an element here")]
        match fault.code {
            Code::NoSuchKey if !is_named => fault.with("Key", key),
            Code::NoSuchVersion if !is_named => {
                fault.with("Key", key).with("VersionId", asked("versionId"))
            }
            Code::NoSuchUpload => fault.with("UploadId", asked("uploadId")),
            Code::MethodNotAllowed if is_about_marker(&fault) => {
                let line = self.operation.request_line();
                fault.with("Method", line.split(' ').next().unwrap_or_default())
            }
            _ => fault,
        }
    }

    /// Refuses a client that may not do with this object what it asked for. It was allowed to do so
    /// with the object that was looked at first. `version` is the one by which the request names the
    /// object.
    pub(crate) fn check_object(
        &self,
        object: &Object,
        (bucket, key, version): (&BucketName, &ObjectKey, Option<&VersionId>),
        rules: &BucketRules,
    ) -> Result<(), Fault> {
        if object.bucket != rules.ino {
            return Err(gone(bucket));
        }
        // Those of a body are asked about the object when the body has been read.
        let (Demand::All(permissions) | Demand::WithUpload(permissions)) = self.demanded else {
            return Ok(());
        };
        let about = |permission: &&Permission| match &permission.resource {
            S3Resource::Object(of, at) => {
                of == bucket && at == key && permission.version.as_ref() == version
            }
            S3Resource::Bucket(_) | S3Resource::Service => false,
        };
        let may = |permission| self.sender.rule(permission, Some(rules), Some(object));
        let all = permissions.iter().filter(about).all(may);
        if all { Ok(()) } else { Err(Code::AccessDenied.into()) }
    }

    /// Refuses a request whose bucket is not the one any more that was looked at when it began, as
    /// this process last saw it. For whoever has waited for a body.
    pub(crate) async fn check_bound(&self) -> Result<(), Fault> {
        let (Some(rules), Some(name)) = (&self.rules, self.resource.bucket()) else {
            return Ok(());
        };
        let now = self.all_rules.of(self.volume, name).await?;
        if now.ino == rules.ino { Ok(()) } else { Err(gone(name)) }
    }

    /// As [`Call::check_bound`], by what the database says now. For changes of a bucket's settings.
    pub(crate) async fn check_bound_now(&self) -> Result<(), Fault> {
        let name = self.bucket()?;
        let now = self.volume.bucket(name.as_str()).await;
        let now = now.map_err(|error| translate::on(name, error))?;
        if now.ino == self.rules()?.ino { Ok(()) } else { Err(gone(name)) }
    }

    /// Refuses a client that lacks one of the permissions of a step of a multipart upload. If a policy
    /// asks for values of the request that began the upload, they come from the upload's record. An
    /// upload that does not exist has none.
    pub(crate) async fn demand_of_upload(&self, permissions: &[Permission]) -> Result<(), Fault> {
        if !self.sender.upload_decides(self.rules.as_deref()) {
            return self.demand(permissions).await;
        }
        let (bucket, key) = self.object()?;
        let id = self.query.get("uploadId")?.and_then(|id| id.parse().ok());
        let Some(id) = id else { return self.demand(permissions).await };
        let upload = match self
            .volume
            .upload_in_any_state(bucket.as_str(), key.as_str().as_bytes(), id)
            .await
        {
            Ok(upload) => upload,
            Err(VolumeError::Fs(FsError::NoSuchUpload)) => {
                return self.demand(permissions).await;
            }
            Err(error) => return Err(translate::on(bucket, error)),
        };
        let mut permissions = permissions.to_vec();
        for permission in &mut permissions {
            if permission.facts.creates_object.is_some() {
                permission.facts.continue_upload(&upload.asked);
            }
        }
        self.demand(&permissions).await
    }

    /// Refuses a client before its body is read, unless a policy asks for a value that the body may
    /// have. [`Call::demand_with_body`] asks again when the body has been read.
    pub(crate) async fn demand_before_body(&self, permissions: &[Permission]) -> Result<(), Fault> {
        if self.sender.body_decides(self.rules.as_deref()) && !self.is_stranger() {
            return Ok(());
        }
        self.demand(permissions).await
    }

    /// Refuses a client that lacks one of the permissions of its request, now that `learn` adds the
    /// values that the body has for condition keys.
    pub(crate) async fn demand_with_body(
        &self,
        learn: impl Fn(&mut RequestFacts),
    ) -> Result<(), Fault> {
        self.demand(&self.permissions_with_body(learn)?).await
    }

    /// Returns the permissions of the request; `learn` adds the values that the body has for
    /// condition keys.
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

    /// Whether nobody has signed the request, and its bucket lets in nobody but its owner's account.
    pub(crate) fn is_stranger(&self) -> bool {
        let private = self.rules.as_ref().is_none_or(|rules| rules.is_private());
        self.sender.identity.is_none() && private
    }

    /// Refuses a copy whose source's bucket belongs to another account than the request says.
    ///
    /// Fault: `AccessDenied`.
    async fn check_source_owner(&self) -> Result<(), Fault> {
        if !matches!(self.operation, Operation::CopyObject | Operation::UploadPartCopy) {
            return Ok(());
        }
        let fields = self.fields();
        let Some(expected) = fields.get("x-amz-source-expected-bucket-owner")? else {
            return Ok(());
        };
        let source = CopySource::parse(fields.get("x-amz-copy-source")?.unwrap_or_default())?;
        let rules = self.all_rules.of(self.volume, &source.bucket).await?;
        check_owner(expected, &rules.account)
    }

    /// Refuses a request whose bucket belongs to another account than the request says.
    ///
    /// Fault: `AccessDenied`.
    pub(crate) fn check_owners(&self) -> Result<(), Fault> {
        let expected = self.fields().get("x-amz-expected-bucket-owner")?;
        match (expected, &self.rules) {
            (Some(expected), Some(rules)) => check_owner(expected, &rules.account),
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    /// The rules of the bucket. An operation on a bucket that there is always has them.
    pub(crate) fn rules(&self) -> Result<&BucketRules, Fault> {
        self.rules.as_deref().ok_or(Code::InvalidRequest.into())
    }

    /// The bucket. An operation on a bucket always has one, because requests are routed by their
    /// resource.
    pub(crate) fn bucket(&self) -> Result<&'a BucketName, Fault> {
        self.resource.bucket().ok_or(Code::InvalidRequest.into())
    }

    /// The bucket that was looked at when the request began: one that got its name since is not
    /// meant, and what this request was allowed says nothing about that one.
    pub(crate) fn named_bucket(&self) -> Result<NamedBucket<'a>, Fault> {
        let name = self.bucket()?.as_str().as_bytes();
        Ok(NamedBucket { name, ino: Some(self.rules()?.ino) })
    }

    /// The bucket and the key.
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

    /// Whom what this request creates belongs to. In a bucket where access control lists count, that
    /// is the writer, unless the writer leaves it to the bucket's owner; elsewhere always that one.
    pub(crate) fn owner(&self, asked: Option<&RequestedAcl>) -> Result<FileOwner, Fault> {
        let rules = self.rules()?;
        let account = self.sender.account();
        let given = asked == Some(&RequestedAcl::Canned(CannedAcl::BucketOwnerFullControl));
        let is_writers = match rules.settings.ownership {
            Some(ObjectOwnership::BucketOwnerEnforced) => false,
            Some(ObjectOwnership::BucketOwnerPreferred) => !given,
            Some(ObjectOwnership::ObjectWriter) | None => true,
        };
        let writer = (is_writers && account != rules.settings.owner).then_some(account);
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

    /// How S3 shows whom an object belongs to.
    pub(crate) fn owner_of(&self, writer: Option<AccountId>) -> Result<Owner, Fault> {
        Ok(self.sender.access.owner(writer.unwrap_or(self.rules()?.settings.owner)))
    }
}

/// Whether a fault lets its reader know that there is no such object or version, or that a delete
/// marker is there.
pub(crate) fn tells_of_absence(fault: &Fault) -> bool {
    matches!(fault.code, Code::NoSuchKey | Code::NoSuchVersion)
        || fault.code == Code::MethodNotAllowed && is_about_marker(fault)
}

/// Whether what is refused is refused because of a delete marker.
fn is_about_marker(fault: &Fault) -> bool {
    fault.extra.iter().any(|(element, what)| *element == "ResourceType" && what == "DeleteMarker")
}

fn gone(bucket: &BucketName) -> Fault {
    Fault::new(Code::NoSuchBucket).with("BucketName", bucket.as_str())
}

/// Refuses a bucket of another account than the request says. What is no number of an account is
/// that of another one.
fn check_owner(expected: &str, account: &str) -> Result<(), Fault> {
    if expected == account { Ok(()) } else { Err(Code::AccessDenied.into()) }
}

/// The user and group that own what anonymous clients create.
const NOBODY: u32 = 65_534;
