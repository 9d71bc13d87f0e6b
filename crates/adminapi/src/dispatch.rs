//! The function of each endpoint.
//!
//! For example, `GetBucketQuota` parses the bucket from the path and calls [`AdminApi::quota`].
//! Each function checks the permission of the sender itself, because the console calls them, too.

use crate::interface::{ApiCall, Reply};
use crate::resources::bucket_documents::BucketDocumentKind;
use crate::resources::status::Liveness;
use crate::{Actor, AdminApi, ApiError, Endpoint, openapi};

impl AdminApi {
    /// Calls an endpoint. `actor` is `None` for an endpoint that needs no credentials.
    #[expect(
        clippy::too_many_lines,
        reason = "an arm for each endpoint, so that none is forgotten"
    )]
    pub(crate) async fn dispatch(
        &self,
        actor: Option<&Actor<'_>>,
        call: &ApiCall,
    ) -> Result<Reply, ApiError> {
        let named = call.parameter(0);
        let if_match = &call.if_match;
        let actor =
            || actor.ok_or_else(|| ApiError::unauthenticated("The request has no credentials."));
        match call.endpoint {
            Endpoint::GetHealth => Reply::json(&Liveness { alive: true }),
            Endpoint::GetOpenApi => {
                Reply::json(self.openapi.get_or_init(|| openapi::document(&self.facts.version)))
            }
            Endpoint::GetVersion => actor().and_then(|_| Reply::json(&self.version())),
            Endpoint::GetMe => Reply::json(&self.me(actor()?)),
            Endpoint::GetStatus => Reply::json(&self.status(actor()?).await?),
            Endpoint::GetActivity => Reply::json(&self.activity(actor()?, call.query()?)?),
            Endpoint::GetStream => Ok(Reply::events(self.stream(actor()?, &call.query()?)?)),
            Endpoint::GetConfig => Reply::json(&self.config(actor()?)?),

            Endpoint::ListBuckets => Reply::json(&self.buckets(actor()?, &call.query()?).await?),
            Endpoint::GetBucket => Reply::tagged(&self.bucket(actor()?, named).await?),
            Endpoint::PutBucket => {
                let new = call.body_or_default()?;
                Reply::tagged(&self.put_bucket(actor()?, named, new).await?)
            }
            Endpoint::PatchBucket => {
                let patch = call.body()?;
                Reply::tagged(&self.patch_bucket(actor()?, named, patch, if_match).await?)
            }
            Endpoint::DeleteBucket => {
                self.delete_bucket(actor()?, named, if_match).await?;
                Ok(Reply::empty())
            }
            Endpoint::GetArchive => {
                Ok(Reply::zip(self.archive(actor()?, named, &call.query()?).await?))
            }
            Endpoint::GetBucketQuota => Reply::tagged(&self.quota(actor()?, named).await?),
            Endpoint::PutBucketQuota => {
                let quota = call.body()?;
                Reply::tagged(&self.put_quota(actor()?, named, quota, if_match).await?)
            }
            Endpoint::DeleteBucketQuota => {
                self.delete_quota(actor()?, named, if_match).await?;
                Ok(Reply::empty())
            }

            Endpoint::GetBucketTrash => Reply::tagged(&self.trash(actor()?, named).await?),
            Endpoint::PutBucketTrash => {
                let trash = call.body()?;
                Reply::tagged(&self.put_trash(actor()?, named, trash, if_match).await?)
            }
            Endpoint::ListTrashItems => {
                Reply::json(&self.trash_items(actor()?, named, &call.query()?).await?)
            }
            Endpoint::RestoreTrash => {
                Reply::json(&self.restore_trash(actor()?, named, &call.body()?).await?)
            }
            Endpoint::EmptyTrash => {
                Reply::json(&self.empty_trash(actor()?, named, &call.body()?).await?)
            }

            Endpoint::GetBucketPolicy => self.get(actor()?, call, BucketDocumentKind::Policy).await,
            Endpoint::PutBucketPolicy => self.put(actor()?, call, BucketDocumentKind::Policy).await,
            Endpoint::DeleteBucketPolicy => {
                self.delete(actor()?, call, BucketDocumentKind::Policy).await
            }
            Endpoint::GetBucketCors => self.get(actor()?, call, BucketDocumentKind::Cors).await,
            Endpoint::PutBucketCors => self.put(actor()?, call, BucketDocumentKind::Cors).await,
            Endpoint::DeleteBucketCors => {
                self.delete(actor()?, call, BucketDocumentKind::Cors).await
            }
            Endpoint::GetBucketLifecycle => {
                self.get(actor()?, call, BucketDocumentKind::Lifecycle).await
            }
            Endpoint::PutBucketLifecycle => {
                self.put(actor()?, call, BucketDocumentKind::Lifecycle).await
            }
            Endpoint::DeleteBucketLifecycle => {
                self.delete(actor()?, call, BucketDocumentKind::Lifecycle).await
            }
            Endpoint::GetBucketTags => self.get(actor()?, call, BucketDocumentKind::Tags).await,
            Endpoint::PutBucketTags => self.put(actor()?, call, BucketDocumentKind::Tags).await,
            Endpoint::DeleteBucketTags => {
                self.delete(actor()?, call, BucketDocumentKind::Tags).await
            }
            Endpoint::GetBucketLock => {
                self.get(actor()?, call, BucketDocumentKind::ObjectLock).await
            }
            Endpoint::PutBucketLock => {
                self.put(actor()?, call, BucketDocumentKind::ObjectLock).await
            }
            Endpoint::GetBucketPublicAccessBlock => {
                self.get(actor()?, call, BucketDocumentKind::PublicAccessBlock).await
            }
            Endpoint::PutBucketPublicAccessBlock => {
                self.put(actor()?, call, BucketDocumentKind::PublicAccessBlock).await
            }
            Endpoint::DeleteBucketPublicAccessBlock => {
                self.delete(actor()?, call, BucketDocumentKind::PublicAccessBlock).await
            }
            Endpoint::GetBucketPublic => Reply::tagged(&self.public(actor()?, named).await?),
            Endpoint::PutBucketPublic => {
                let wanted = call.body()?;
                Reply::tagged(&self.put_public(actor()?, named, wanted, if_match).await?)
            }

            Endpoint::ListUsers => Reply::json(&self.users(actor()?, &call.query()?).await?),
            Endpoint::GetUser => {
                let details = self.user(actor()?, named).await?;
                Reply::of_record(&details, details.user.version)
            }
            Endpoint::PutUser => {
                let new = call.body_or_default()?;
                Reply::json(&self.put_user(actor()?, named, &new).await?)
            }
            Endpoint::PatchUser => {
                let patch = call.body()?;
                let user = self.patch_user(actor()?, named, &patch, if_match).await?;
                Reply::of_record(&user, user.version)
            }
            Endpoint::DeleteUser => {
                self.delete_user(actor()?, named, if_match).await?;
                Ok(Reply::empty())
            }
            Endpoint::ListKeys => Reply::json(&self.keys(actor()?, named, &call.query()?).await?),
            Endpoint::PostKey => {
                let new = call.body_or_default()?;
                Reply::json(&self.post_key(actor()?, named, &new).await?)
            }
            Endpoint::PatchKey => {
                let (of, patch) = ((named, call.parameter(1)), call.body()?);
                let key = self.patch_key(actor()?, of, &patch, if_match).await?;
                Reply::of_record(&key, key.version)
            }
            Endpoint::DeleteKey => {
                self.delete_key(actor()?, (named, call.parameter(1)), if_match).await?;
                Ok(Reply::empty())
            }
            Endpoint::RotateKey => {
                let rotation = call.body_or_default()?;
                let of = (named, call.parameter(1));
                Reply::json(&self.rotate_key(actor()?, of, rotation).await?)
            }
            Endpoint::ListTokens => Reply::json(&self.tokens(actor()?, &call.query()?).await?),
            Endpoint::PostToken => {
                let new = call.body()?;
                Reply::json(&self.post_token(actor()?, &new).await?)
            }
            Endpoint::DeleteToken => {
                self.delete_token(actor()?, named).await?;
                Ok(Reply::empty())
            }
            Endpoint::ListGroups => Reply::json(&self.groups(actor()?, &call.query()?).await?),
            Endpoint::GetGroup => {
                let group = self.group(actor()?, named).await?;
                Reply::of_record(&group, group.version)
            }
            Endpoint::PutGroup => {
                let new = call.body_or_default()?;
                let group = self.put_group(actor()?, named, &new, if_match).await?;
                Reply::of_record(&group, group.version)
            }
            Endpoint::PatchGroup => {
                let patch = call.body()?;
                let group = self.patch_group(actor()?, named, &patch, if_match).await?;
                Reply::of_record(&group, group.version)
            }
            Endpoint::DeleteGroup => {
                self.delete_group(actor()?, named, if_match).await?;
                Ok(Reply::empty())
            }

            Endpoint::ListPolicies => Reply::json(&self.policies(actor()?, &call.query()?).await?),
            Endpoint::GetPolicy => {
                let policy = self.policy(actor()?, named).await?;
                Reply::of_record(&policy, policy.version)
            }
            Endpoint::PutPolicy => {
                let new = call.body()?;
                let policy = self.put_policy(actor()?, named, &new, if_match).await?;
                Reply::of_record(&policy, policy.version)
            }
            Endpoint::DeletePolicy => {
                self.delete_policy(actor()?, named, if_match).await?;
                Ok(Reply::empty())
            }
            Endpoint::ValidatePolicy => {
                actor()?;
                Reply::json(&self.validate_policy(&call.body()?))
            }

            Endpoint::SimulatePolicy => Reply::json(&self.simulate(actor()?, &call.body()?).await?),

            Endpoint::ListAccounts => Reply::json(&self.accounts(actor()?, &call.query()?).await?),
            Endpoint::PutAccount => Reply::json(&self.put_account(actor()?, named).await?),
            Endpoint::DeleteAccount => {
                self.delete_account(actor()?, named).await?;
                Ok(Reply::empty())
            }

            Endpoint::ListSessions => Reply::json(&self.sessions(actor()?, &call.query()?).await?),
            Endpoint::ListJobs => Reply::json(&self.list_jobs(actor()?, &call.query()?).await?),
            Endpoint::PostJob => Reply::json(&self.post_job(actor()?, &call.body()?).await?),
            Endpoint::GetJob => Reply::json(&self.job(actor()?, named).await?),
            Endpoint::StopJob => Reply::json(&self.stop_job(actor()?, named).await?),
            Endpoint::DeleteJob => {
                self.delete_job(actor()?, named).await?;
                Ok(Reply::empty())
            }
            Endpoint::GetNode => Reply::json(&self.node(actor()?, &call.query()?).await?),
        }
    }

    /// Answers with a configuration of the bucket in the path.
    async fn get(
        &self,
        actor: &Actor<'_>,
        call: &ApiCall,
        kind: BucketDocumentKind,
    ) -> Result<Reply, ApiError> {
        Reply::tagged(&self.document(actor, call.parameter(0), kind).await?)
    }

    /// Replaces a configuration of the bucket in the path by the body.
    async fn put(
        &self,
        actor: &Actor<'_>,
        call: &ApiCall,
        kind: BucketDocumentKind,
    ) -> Result<Reply, ApiError> {
        let document = call.body()?;
        let bucket = call.parameter(0);
        Reply::tagged(&self.put_document(actor, bucket, kind, &document, &call.if_match).await?)
    }

    /// Removes a configuration of the bucket in the path.
    async fn delete(
        &self,
        actor: &Actor<'_>,
        call: &ApiCall,
        kind: BucketDocumentKind,
    ) -> Result<Reply, ApiError> {
        self.delete_document(actor, call.parameter(0), kind, &call.if_match).await?;
        Ok(Reply::empty())
    }
}
