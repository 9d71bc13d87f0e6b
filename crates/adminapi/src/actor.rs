//! The sender of a request to the API, with its permissions.
//!
//! For example, a user with the policy `diagnostics` may read the status and gets `AccessDenied`
//! for the list of users. Administrative actions concern the whole volume, so policies grant them
//! only to users of the account `main`; users of other accounts manage their buckets and their own
//! keys.

use identity::{Access, Authenticated, ClientAddress, Identity, RequestOrigin, Sender};
use policy::AdminAction;
use record::AccountId;
use s3::BucketName;
use std::sync::Arc;
use volume::Volume;

use crate::{ApiError, RequestNotes};

/// The authenticated sender of one request.
#[derive(Debug)]
pub struct Actor<'a> {
    sender: Sender<'a>,
    identity: &'a Arc<Identity>,
    authenticated: &'a Authenticated,
    request_id: &'a str,
    /// The facts about the request for the access log.
    notes: RequestNotes,
}

impl<'a> Actor<'a> {
    /// Returns the sender of an authenticated request. Fails with `Unauthenticated` if the request
    /// is anonymous.
    pub fn new(
        access: &'a Access,
        volume: &'a Arc<Volume>,
        authenticated: &'a Authenticated,
        origin: RequestOrigin<'a>,
        request_id: &'a str,
    ) -> Result<Actor<'a>, ApiError> {
        let Some(identity) = &authenticated.identity else {
            return Err(ApiError::unauthenticated("The request has no credentials."));
        };
        let sender = Sender::new(access, volume, authenticated, origin);
        let notes = RequestNotes::default();
        Ok(Actor { sender, identity, authenticated, request_id, notes })
    }

    /// Returns the sender with the notes of its request, which get the requests of S3 that it leads
    /// to.
    #[must_use]
    pub fn noting(self, notes: &RequestNotes) -> Actor<'a> {
        Actor { notes: notes.clone(), ..self }
    }

    /// Returns the notes of the request.
    pub fn notes(&self) -> &RequestNotes {
        &self.notes
    }

    /// Returns the sender, which decides about permissions of S3.
    pub fn sender(&self) -> &Sender<'a> {
        &self.sender
    }

    /// Returns the identity of the sender.
    pub fn identity(&self) -> &Identity {
        self.identity
    }

    /// Returns the proof of the sender, for requests to the gateway in its name.
    pub(crate) fn authenticated(&self) -> &Authenticated {
        self.authenticated
    }

    /// Returns the client of the request.
    pub(crate) fn client(&self) -> Option<ClientAddress> {
        self.sender.origin.client
    }

    /// Returns the id of the request.
    pub fn request_id(&self) -> &str {
        self.request_id
    }

    /// Returns true if the sender belongs to the account of the operators.
    pub fn is_operator(&self) -> bool {
        self.sender.account() == AccountId::MAIN
    }

    /// Returns true for the operator's own key, which may do everything. A session or a token of it
    /// has limits of its own.
    pub fn is_root(&self) -> bool {
        self.identity.root && !self.is_temporary()
    }

    /// Returns true if the sender has temporary credentials or a token.
    pub fn is_temporary(&self) -> bool {
        self.identity.is_temporary()
    }

    /// Returns the name of the sender's user. For a web identity, which has no user, the access key
    /// of its session.
    pub fn user(&self) -> &str {
        &self.identity.access_key
    }

    /// Returns true if the sender is the user of this name, with any of its keys. No user has the
    /// name of a web identity's session.
    pub fn is_user(&self, name: &str) -> bool {
        self.identity.access_key == name
    }

    /// Returns true if the sender may do an administrative action. `bucket` is the bucket that the
    /// action concerns, `None` if it concerns the volume.
    pub fn may(&self, action: AdminAction, bucket: Option<&BucketName>) -> bool {
        self.is_operator() && self.sender.may_administer(action, bucket)
    }

    /// Returns true if the sender may do an administrative action on the volume without a
    /// condition, so that it may give the action to others.
    pub(crate) fn may_give(&self, action: AdminAction) -> bool {
        self.is_operator() && self.sender.may_always_administer(action)
    }

    /// Returns true if the sender may do an action on itself, such as the creation of an access key
    /// of its own. No Allow is needed; a Deny prevents it, and so does a session policy or a token
    /// without the action.
    pub fn may_for_itself(&self, action: AdminAction) -> bool {
        self.sender.may_for_itself(action)
    }

    /// Fails with `AccessDenied` if the sender may not do an action that concerns a user. If the
    /// user is the sender itself, no Allow is needed: a Deny prevents it, and a token or a session
    /// with a policy needs the action in it.
    pub(crate) fn require_of(&self, user: &str, action: AdminAction) -> Result<(), ApiError> {
        if self.is_user(user) && self.may_for_itself(action) {
            return Ok(());
        }
        self.require(action)
    }

    /// Returns true if the sender may choose the names of access keys. Any user could otherwise
    /// take a name that an operator wants to give to a user.
    pub fn may_name_keys(&self) -> bool {
        self.may(AdminAction::CreateServiceAccount, None)
    }

    /// Fails with `AccessDenied` if the sender may not do an administrative action on the volume.
    pub(crate) fn require(&self, action: AdminAction) -> Result<(), ApiError> {
        if self.may(action, None) { Ok(()) } else { Err(ApiError::denied(action.name())) }
    }

    /// Fails with `AccessDenied` if the sender may not do an administrative action on a bucket.
    pub(crate) fn require_on(
        &self,
        action: AdminAction,
        bucket: &BucketName,
    ) -> Result<(), ApiError> {
        if self.may(action, Some(bucket)) { Ok(()) } else { Err(ApiError::denied(action.name())) }
    }
}
