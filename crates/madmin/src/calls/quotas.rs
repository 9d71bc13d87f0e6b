//! Quotas of buckets.

use adminapi::ApiError;

use super::{CallRequest, Reply};
use crate::documents::QuotaDocument;
use crate::error;
use crate::minio_admin::MinioAdmin;

impl MinioAdmin {
    pub(super) async fn get_quota(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let bucket = request.query.one("bucket")?;
        let found = self.parts.api.quota(request.actor, bucket).await?;
        let size = found.bytes.unwrap_or(0);
        let mut document =
            serde_json::json!(QuotaDocument { quota: size, size, ..QuotaDocument::default() });
        // MinIO names no kind for a bucket without a limit.
        if size > 0 {
            document["quotatype"] = "hard".into();
        }
        Reply::json(&document)
    }

    /// Sets the limit of bytes, or removes it. The limit of objects, which MinIO does not have,
    /// stays.
    pub(super) async fn set_quota(&self, request: &CallRequest<'_>) -> Result<Reply, ApiError> {
        let (api, actor) = (&self.parts.api, request.actor);
        let bucket = request.query.one("bucket")?;
        let QuotaDocument { quota, size, rate, requests } = request.json()?;
        if rate > 0 || requests > 0 {
            let why = "Ashlar has no limits of rates; see `ashlar bucket set --help`.";
            return Err(error::missing(why));
        }
        let bytes = if size > 0 { size } else { quota };
        let wanted = (bytes > 0).then_some(bytes);
        api.put_quota_bytes(actor, bucket, wanted).await?;
        Ok(Reply::Done)
    }
}
