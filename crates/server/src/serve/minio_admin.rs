//! MinIO's administration protocol at the S3 endpoint, over the parts of the gateway.
//!
//! For example, `mc admin trace` follows the same entries as the access log, and
//! `/minio/v2/metrics/cluster` has the metrics of the administrative listener, for senders with a
//! token.

use std::sync::Arc;

use adminapi::AdminApi;
use futures::FutureExt;
use gateway::Gateway;
use http::{HeaderMap, Method, Uri};
use madmin::{MinioAdmin, MinioParts};
use tokio_util::sync::CancellationToken;

use super::audited::Audited;
use crate::config::ServeSettings;
use crate::metrics::Metrics;
use crate::operator::SystemRandom;

/// Returns the protocol over the parts of a gateway; `None` if the settings turn it off. `stopping`
/// is cancelled when the listener closes.
pub(super) fn over(
    settings: &ServeSettings,
    api: &Arc<AdminApi>,
    audited: &Arc<Audited>,
    metrics: &Arc<Metrics>,
    stopping: &CancellationToken,
) -> Option<Arc<MinioAdmin>> {
    if !settings.minio_admin {
        return None;
    }
    let (audited, metrics) = (Arc::clone(audited), Arc::clone(metrics));
    Some(MinioAdmin::new(MinioParts {
        api: Arc::clone(api),
        random: Arc::new(SystemRandom),
        subscribe: Box::new(move || audited.log.subscribe()),
        metrics: Box::new(move || {
            let metrics = Arc::clone(&metrics);
            async move {
                metrics.refresh().await;
                metrics.prometheus_text()
            }
            .boxed()
        }),
        stopping: stopping.clone(),
    }))
}

/// Returns true if a request belongs to the protocol. No bucket has the name `minio`, so the path
/// names no object. In a virtual-hosted request it is an object of the bucket that the host names.
pub(super) fn is_for(gateway: &Gateway, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    madmin::is_ours(uri.path()) && gateway.claimed(method, uri, headers).bucket.is_none()
}
