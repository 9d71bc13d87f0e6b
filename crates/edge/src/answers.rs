//! The memory of responses that are completely in memory while they are sent to their clients.
//!
//! Such a response needs no slot, that is, its request does not count as in flight any more. Each
//! host has a share of the memory, so a client that reads nothing does not take the error documents
//! of others. For example, a host with a hundred unread listings keeps the slots of its further
//! requests, and every other host still gets its answers at once.

use std::sync::Arc;

use http::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::hosts::{HOST_ANSWERS_KIB_MAX, HostRequests};
use crate::service::EdgeBody;

/// The memory for the responses of all hosts, in KiB.
const ALL_KIB_MAX: usize = 2 * HOST_ANSWERS_KIB_MAX;

/// Further memory, in KiB, for short responses, such as the documents of errors.
const SHORT_KIB_MAX: usize = 4 << 10;

/// The longest response that is short, in KiB.
const SHORT_RESPONSE_KIB: u32 = 4;

/// The permits for the memory of all responses, one permit for each KiB.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    all: Arc<Semaphore>,
    short: Arc<Semaphore>,
}

/// The memory of one response. Dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct AnswerPermit {
    _host: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl AnswerMemory {
    pub(crate) fn new() -> AnswerMemory {
        let [all, short] = [ALL_KIB_MAX, SHORT_KIB_MAX].map(|size| Arc::new(Semaphore::new(size)));
        AnswerMemory { all, short }
    }

    /// Returns the memory of a response to this host. Returns `None` if the host's share or the
    /// memory of all hosts is used up: then the response keeps its request's slot until the client
    /// has read it, and a response without a slot is sent without its body.
    pub(crate) fn take(
        &self,
        host: &HostRequests,
        response: &Response<EdgeBody>,
    ) -> Option<AnswerPermit> {
        let bytes = http_body::Body::size_hint(response.body()).upper().unwrap_or(u64::MAX);
        let kibibytes = u32::try_from(1 + bytes / 1024).ok()?;
        let take = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_many_owned(kibibytes).ok();
        let of_host = match host.answers() {
            Some(share) => Some(take(share)?),
            // A trusted proxy that names no client has no share.
            None => None,
        };
        let is_short = kibibytes <= SHORT_RESPONSE_KIB;
        // A long response must not take this memory for an instant: a short one could miss it.
        let all = take(&self.all).or_else(|| if is_short { take(&self.short) } else { None })?;
        Some(AnswerPermit { _host: of_host, _all: all })
    }
}

#[cfg(test)]
mod tests;
