//! The server.

use adminapi::ApiError;
use adminapi::page::{LIMIT_MAX, PageQuery};
use adminapi::resources::buckets::BucketJson;
use adminapi::resources::status::StoreCondition;

use super::{CallRequest, Reply};
use crate::documents::{Backend, Count, ServerDocument, ServerProperties, Usage};
use crate::minio_admin::MinioAdmin;

/// The limit of pages of buckets of which `info` shows the sum.
const PAGES_MAX: usize = 10;

impl MinioAdmin {
    /// Returns the state of the server, and the usage of the first 10,000 buckets.
    pub(super) async fn server_info(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let (api, actor) = (&self.parts.api, request.actor);
        let status = api.status(actor).await?;
        let buckets = self.buckets_of(request).await?;
        let (version, is_up) = (api.version(), status.volume.session == "ok");
        let answers = status.metadata.state != StoreCondition::Failing
            && status.blocks.state != StoreCondition::Failing;
        let state = if is_up && answers { "online" } else { "offline" };
        Reply::json(&ServerDocument {
            mode: state,
            region: api.region(),
            deployment_id: status.volume.id,
            buckets: Count { count: buckets.len() as u64 },
            objects: Count { count: buckets.iter().map(|bucket| bucket.objects).sum() },
            usage: Usage { size: buckets.iter().map(|bucket| bucket.bytes).sum() },
            backend: Backend { backend_type: "FS" },
            servers: [ServerProperties {
                state,
                endpoint: request.host,
                uptime: status.uptime_seconds,
                version: version.version,
                commit_id: version.commit,
                edition: "Ashlar",
            }],
        })
    }

    /// Returns the buckets that the sender may see, at most [`PAGES_MAX`] pages.
    async fn buckets_of(&self, request: &CallRequest<'_>) -> Result<Vec<BucketJson>, ApiError> {
        let (api, actor) = (&self.parts.api, request.actor);
        let (mut buckets, mut page) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let query = PageQuery { page, limit: Some(LIMIT_MAX), prefix: None };
            let found = api.buckets(actor, &query).await?;
            buckets.extend(found.items);
            page = found.next;
            if page.is_none() {
                break;
            }
        }
        Ok(buckets)
    }
}
