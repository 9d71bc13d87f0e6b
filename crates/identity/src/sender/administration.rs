//! Decides about administrative actions.
//!
//! Policies of users, groups and sessions allow or deny them like actions of S3; bucket policies
//! cannot name them. The operator's own key may do all of them. For example, a user with the
//! built-in policy `diagnostics` may read the state of the volume and may not list users.
//!
//! Some actions concern only the sender itself, such as a login or an access key of its own. Each
//! user may do them without an Allow, and a Deny prevents them. A token or a session with a policy
//! needs them in its actions or its policy: for example, a token for `admin:ListJobs` does not read
//! the policies of its user.

use policy::{AdminAction, Ruling, Source};
use s3::BucketName;
use s3::operation::Permission;

use super::Sender;

impl Sender<'_> {
    /// Returns true if a policy of the sender allows an administrative action, and none denies it.
    /// `bucket` is the bucket that the action concerns, `None` if it concerns the volume.
    pub fn may_administer(&self, action: AdminAction, bucket: Option<&BucketName>) -> bool {
        self.administrative(action, bucket) == Ruling::Allowed
    }

    /// Returns true if the sender is a user, no policy denies an action on the sender itself, and
    /// the session policy, or the actions of the token, allow it if there are any.
    pub fn may_for_itself(&self, action: AdminAction) -> bool {
        let is_permitted = match self.administrative(action, None) {
            Ruling::Allowed | Ruling::NotAllowed(Source::Identity | Source::Bucket) => true,
            Ruling::Denied(_) | Ruling::NotAllowed(Source::Session) => false,
        };
        self.identity.is_some() && is_permitted
    }

    /// Returns true if the sender may do an administrative action now and under all other
    /// circumstances, such as from another address: an Allow without conditions covers it, and no
    /// Deny could. A right that a sender passes on has no conditions, so it needs this much.
    ///
    /// For example, an operator whose policy allows `admin:ListUsers` from one network may list
    /// users there, and may not create a user that lists them from everywhere.
    pub fn may_always_administer(&self, action: AdminAction) -> bool {
        let Some(identity) = &self.identity else { return false };
        let session = identity.session.as_ref().and_then(|session| session.policy.as_deref());
        // A session policy is a limit of its own, so it must allow the action, too.
        if session.is_some_and(|limit| !limit.always_allows(action.name())) {
            return false;
        }
        if self.own_policies().any(|policy| policy.could_deny(action.name())) {
            return false;
        }
        identity.root || identity.policies.iter().any(|policy| policy.always_allows(action.name()))
    }

    fn administrative(&self, action: AdminAction, bucket: Option<&BucketName>) -> Ruling {
        let permission = match bucket {
            Some(bucket) => Permission::on_bucket(action.name(), bucket),
            None => Permission::on_service(action.name()),
        };
        // Without the rules of a bucket, its policy and its ACL have no part in the decision.
        self.ruling(&permission, None, None)
    }
}
