//! The permission to deliver the access log of a bucket into another bucket.
//!
//! The delivery acts as the service `logging.s3.amazonaws.com`, which has no account. So the target
//! bucket alone decides, by its policy, or by a grant to the log delivery group if its ACLs are
//! enabled. For example, an Allow of `s3:PutObject` with the condition `aws:SourceArn` of one
//! bucket admits the log of this bucket and no other.

use policy::{
    BucketSide, ConditionKey, ConditionValues, LOG_DELIVERY, Principal, Question, Sources, Values,
    authorise,
};
use record::Grantee;
use rules::BucketRules;
use s3::BucketName;
use s3::acl::AclPermission;
use s3::bucket_logging::LogSource;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The delivery of one object of an access log.
#[derive(Clone, Copy, Debug)]
pub struct LogDelivery<'a> {
    /// The bucket whose requests the log has.
    pub source: LogSource<'a>,
    /// The bucket that gets the object.
    pub target: &'a BucketName,
    /// The key of the object.
    pub key: &'a str,
    /// The time of the delivery.
    pub now: OffsetDateTime,
}

/// The reason why a bucket must not get an object of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRefusal {
    /// The two buckets belong to different accounts.
    OtherOwner,
    /// The target has a default retention, so no log could be deleted before its end.
    DefaultRetention,
    /// Neither the policy of the target nor its ACL allows the delivery, or the policy denies it.
    NoPermission,
}

impl LogRefusal {
    /// Returns the reason as a sentence for clients and operators.
    pub const fn sentence(self) -> &'static str {
        match self {
            LogRefusal::OtherOwner => {
                "The owner for the bucket to be logged and the target bucket must be the same."
            }
            LogRefusal::DefaultRetention => {
                "The target bucket for logging has a default retention of object lock."
            }
            LogRefusal::NoPermission => {
                "The policy of the target bucket must allow s3:PutObject to the service \
                 logging.s3.amazonaws.com."
            }
        }
    }
}

impl LogDelivery<'_> {
    /// Fails if the target must not get the object. `target` are the rules of the target bucket.
    ///
    /// # Errors
    /// The first reason, in the order of [`LogRefusal`].
    pub fn check(&self, target: &BucketRules) -> Result<(), LogRefusal> {
        if target.account != self.source.account {
            return Err(LogRefusal::OtherOwner);
        }
        if target.object_lock.as_ref().is_some_and(|lock| lock.default.is_some()) {
            return Err(LogRefusal::DefaultRetention);
        }
        let resource = format!("{}/{}", self.target, self.key);
        let question = Question {
            principal: &Principal::Service(LOG_DELIVERY),
            action: "s3:PutObject",
            resource: &resource,
            conditions: self,
        };
        let policy = target.policy.as_ref();
        let bucket = BucketSide { account: &target.account, policy, policy_allows: true };
        let sources = Sources {
            identity: &[],
            session: None,
            bucket: Some(bucket),
            acl: &|| is_granted(target),
        };
        let allowed = authorise(&question, &sources).is_allowed();
        if allowed { Ok(()) } else { Err(LogRefusal::NoPermission) }
    }
}

impl ConditionValues for LogDelivery<'_> {
    fn values(&self, key: &ConditionKey) -> Values<'_> {
        let text = Values::from_owned;
        // The delivery has no request, so most keys have no value.
        if *key == ConditionKey::SourceArn {
            text(Some(format!("arn:aws:s3:::{}", self.source.bucket)))
        } else if *key == ConditionKey::SourceAccount {
            Values::from_borrowed(Some(self.source.account))
        } else if *key == ConditionKey::SecureTransport {
            // The object does not leave the process before it is written. A Deny of requests
            // without TLS must not stop the log, as it does not on AWS.
            Values::from_borrowed(Some("true"))
        } else if *key == ConditionKey::CurrentTime {
            text(self.now.format(&Rfc3339).ok())
        } else if *key == ConditionKey::EpochTime {
            text(Some(self.now.unix_timestamp().to_string()))
        } else if *key == ConditionKey::ObjectCreationOperation {
            Values::from_borrowed(Some("true"))
        } else {
            Values::Absent
        }
    }
}

/// Returns true if the ACL of a bucket grants its log delivery group both permissions that S3 asks
/// for: WRITE and `READ_ACP`.
fn is_granted(target: &BucketRules) -> bool {
    let Some(acl) = target.acl.as_ref().filter(|_| target.acls_enabled()) else { return false };
    let grants = |required| {
        acl.grants.iter().any(|grant| {
            grant.grantee == Grantee::LogDelivery
                && rules::acl_permission(grant.permission).covers(required)
        })
    };
    grants(AclPermission::Write) && grants(AclPermission::ReadAcp)
}

#[cfg(test)]
mod tests;
