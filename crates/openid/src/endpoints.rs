//! A cache of an issuer's endpoints for logins.
//!
//! Any sender can begin a login, so the issuer is asked rarely. The invariant: one request at a
//! time fetches the endpoints, and a result counts for [`KEYS_REFRESH_AFTER`], an error for
//! [`REFRESH_INTERVAL_MIN`]. For example, if the issuer is down, a hundred people who press the
//! button at once cause one request.

use std::sync::Arc;

use runtime::{Moment, Tasks};
use tokio::sync::Mutex;

use crate::discovery::{self, Endpoints};
use crate::fetch::Fetcher;
use crate::key_cache::{KEYS_REFRESH_AFTER, REFRESH_INTERVAL_MIN};

/// The result of the last fetch, with the time up to which it counts.
#[derive(Debug)]
struct Fetched {
    result: Result<Arc<Endpoints>, String>,
    expires_at: Moment,
}

/// The cache of the endpoints of one issuer.
#[derive(Debug)]
pub(crate) struct EndpointCache {
    issuer: String,
    fetcher: Fetcher,
    tasks: Tasks,
    last: Arc<Mutex<Option<Fetched>>>,
}

impl EndpointCache {
    pub(crate) fn new(issuer: String, fetcher: Fetcher, tasks: Tasks) -> EndpointCache {
        EndpointCache { issuer, fetcher, tasks, last: Arc::default() }
    }

    /// Returns the endpoints of the issuer, and fetches them first if necessary. The error is a
    /// text for the operator.
    pub(crate) async fn get(&self) -> Result<Arc<Endpoints>, String> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some(known) = last.as_ref().filter(|known| !known.expires_at.has_passed()) {
            return known.result.clone();
        }
        let (fetcher, issuer) = (self.fetcher.clone(), self.issuer.clone());
        // A task, because a client that disconnects would otherwise cancel the fetch, and many such
        // clients could ask the issuer again and again.
        let task = self.tasks.spawn("endpoints of an OpenID issuer", async move {
            let result = discovery::endpoints(&fetcher, &issuer).await.map(Arc::new);
            if let Err(error) = &result {
                tracing::warn!(issuer, error, "cannot read the endpoints of an OpenID issuer");
            }
            let age_max = if result.is_ok() { KEYS_REFRESH_AFTER } else { REFRESH_INTERVAL_MIN };
            let expires_at = Moment::now().after(age_max);
            *last = Some(Fetched { result: result.clone(), expires_at });
            result
        });
        task.await.unwrap_or_else(|_ended| Err("the request ended early".to_owned()))
    }
}
