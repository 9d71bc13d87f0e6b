//! The objects of delivered access logs.
//!
//! The caller gathers lines of a bucket's access log, and this module writes them as one object of
//! the target bucket, with all checks that the target asks for. For example, after the owner of the
//! target has removed the policy, the next delivery is refused. The requests that write these
//! objects are the gateway's own, so they have no line in any log: a bucket that is its own target
//! does not feed itself.

use bytes::Bytes;
use content::Md5Wanted;
use identity::{LogDelivery, LogRefusal, UMASK_DEFAULT};
use record::{AccountId, Header, ObjectHeaders, Tag};
use rules::{BucketRules, RulesError};
use s3::bucket_logging::{LogSource, LoggingEnabled};
use time::OffsetDateTime;
use volume::{FileOwner, NamedBucket, NewObject, VolumeError, WriteCondition, opaque_tag};

use crate::Gateway;
use crate::call::NOBODY;
use crate::translate;

/// The bytes of a log that are passed to the writer at once.
const STEP_BYTES: usize = 256 << 10;

/// Lines of the access log of one bucket, for one object.
#[derive(Clone, Copy, Debug)]
pub struct BucketLines<'a> {
    /// The bucket whose requests the lines have.
    pub source: &'a str,
    /// The account that owns that bucket.
    pub account: AccountId,
    /// The destination.
    pub destination: &'a LoggingEnabled,
    /// The time for the key of the object: see [`LoggingEnabled::key`].
    pub time: OffsetDateTime,
    /// The number that makes the key unique. A repeated delivery has the same one, so that it
    /// replaces an object whose outcome was unknown.
    pub unique: u64,
}

/// A log could not be delivered.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The target bucket must not get the log.
    #[error("{}", .0.sentence())]
    Refused(LogRefusal),
    /// The rules of the target bucket cannot be determined, or the bucket does not exist.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The volume refused the object, or could not write it.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl LogError {
    /// Returns true if a later delivery of the same lines may succeed although no operator and no
    /// client has changed anything.
    pub fn is_transient(&self) -> bool {
        match self {
            LogError::Refused(_) | LogError::Rules(RulesError::Unreadable(_)) => false,
            LogError::Rules(RulesError::Volume(error)) | LogError::Volume(error) => match error {
                VolumeError::Fs(error) => *error == volume::FsError::Contended,
                VolumeError::Unavailable(_)
                | VolumeError::Unknown(_)
                | VolumeError::Full(_)
                | VolumeError::Overloaded => true,
                VolumeError::Encryption(error) => {
                    error.kind == volume::ProtectionErrorKind::Unavailable
                }
                VolumeError::Corrupt(_) | VolumeError::Refused(_) | VolumeError::Fenced => false,
            },
        }
    }
}

impl Gateway {
    /// Returns the time by the volume's clock.
    pub fn now(&self) -> OffsetDateTime {
        translate::time(self.volume().now())
    }

    /// Writes lines of an access log as one object of their target bucket. Returns the key.
    ///
    /// # Errors
    /// If the target does not exist, or must not or cannot take the object.
    pub async fn deliver_log(
        &self,
        lines: BucketLines<'_>,
        content: Bytes,
    ) -> Result<String, LogError> {
        let BucketLines { source, account, destination, time, unique } = lines;
        let target = &destination.target;
        let rules = self.rules().get(self.volume(), target).await?;
        let account = account.to_string();
        let source =
            LogSource { account: &account, region: &self.settings().region, bucket: source };
        let key = destination.key(&source, time, unique);
        let delivery = LogDelivery { source, target, key: &key, now: self.now() };
        delivery.check(&rules).map_err(LogError::Refused)?;
        self.write_log((target.as_str(), &rules), &key, content).await?;
        Ok(key)
    }

    async fn write_log(
        &self,
        (target, rules): (&str, &BucketRules),
        key: &str,
        mut content: Bytes,
    ) -> Result<(), VolumeError> {
        let encryption = rules.settings.default_encryption.clone();
        let size = Some(content.len() as u64);
        let keys = self.volume().content_keys(encryption.as_ref()).await?;
        let mut writer = self.volume().writer(Some(&keys), size);
        let wants_md5 = !rules.settings.opaque_tags;
        if wants_md5 {
            writer.request_md5(Md5Wanted::AtFinish);
        }
        while !content.is_empty() {
            let step = content.split_to(content.len().min(STEP_BYTES));
            writer.write(step).await?;
        }
        let staged = writer.finish().await?;
        let tag = match staged.md5().filter(|_| wants_md5) {
            Some(md5) => Tag::Md5(md5),
            None => Tag::opaque(opaque_tag()?),
        };
        let headers = vec![(Header::ContentType, "text/plain".to_owned())];
        let new = NewObject {
            owner: FileOwner {
                access_key: String::new(),
                account: rules.settings.owner,
                writer: None,
                uid: NOBODY,
                gid: NOBODY,
                umask: UMASK_DEFAULT,
            },
            headers: ObjectHeaders { headers, ..ObjectHeaders::default() },
            tag,
            sums: Vec::new(),
            encryption,
        };
        // The rules that were checked are those of this inode. If another bucket has the name now,
        // the commit fails.
        let bucket = NamedBucket { name: target.as_bytes(), ino: Some(rules.ino) };
        let put = self.volume().put(bucket, key.as_bytes(), staged, new, WriteCondition::None);
        put.await.map(drop)
    }
}
