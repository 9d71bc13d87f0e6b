//! Slots. A slot is the permission of one request to be in flight, that is, to be served now.
//!
//! A slot counts for the limit of its host and the limit of all requests. A request keeps its slot
//! while the service works for it. While it waits for its client, another request may take the
//! slot, so a client that sends or reads slowly does not block others. When the client continues,
//! the request waits for a slot again. For example, if 512 uploads have all the slots, and their
//! clients have sent nothing for [`CLIENT_WAIT_MAX`], a GET takes one of the slots at once.
//!
//! ```text
//! Held ◀── the client continues ──▶ Held, waiting for the client
//!   ▲                                      │ another request needs the slot
//!   └─── a permit of both limits ────── Reclaimed
//! ```
//!
//! From each state the request may release its slot permanently.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::hosts::HostRequests;
use crate::queue::{Queue, WaitLimit};

/// The time for which a request certainly keeps its slot while it waits for its client. After it,
/// another request may take the slot.
const CLIENT_WAIT_MAX: Duration = Duration::from_millis(50);

/// The limit of the time that a request waits for a new slot after its client has continued.
const RESUME_WAIT: Duration = Duration::from_secs(10);

/// The minimum interval between two passes over all slots. A pass reclaims the slots of requests
/// that wait for their clients, so that other requests get them.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(10);

/// The slots of all requests of one edge: the queue of their common limit, and the list of slots
/// that other requests may take.
#[derive(Debug)]
pub(super) struct RequestSlots {
    queue: Queue,
    ids: AtomicU64,
    /// The slots whose requests wait, or have waited, for their clients, by the id of the slot.
    /// Passes that reclaim slots look at these only.
    reclaimable: Mutex<HashMap<u64, Weak<RequestSlot>>>,
    /// The time of the last pass that reclaimed slots; `None` before the first.
    reclaimed_at: Mutex<Option<Instant>>,
}

/// A request waited for a slot, the permission to be in flight, and did not get one in time.
/// Contains the name of the limit that was reached: `host_requests` for the limit of its host,
/// `requests` for the limit of all requests. A request without a response gets 503 `SlowDown`; a
/// body that is being sent or received breaks off.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no permit of the limit {0} within the deadline")]
pub(super) struct NoSlot(pub(super) &'static str);

/// The slot of one request: its permission to be in flight, which it can lose while it waits for
/// its client, and get again.
#[derive(Debug)]
pub(super) struct RequestSlot {
    id: u64,
    slots: Arc<RequestSlots>,
    host: HostRequests,
    state: Mutex<SlotState>,
}

/// The state of a request's slot, as in the diagram of the module.
#[derive(Debug)]
enum SlotState {
    /// The request has its slot, that is, the permits. `client_since` is the time since which the
    /// request waits for its client; `None` while the service works for it.
    Held { _permits: Permits, client_since: Option<Instant> },
    /// The permits were taken away while the request waited for its client. It must wait for new
    /// ones before it continues.
    Reclaimed,
    /// The request needs no slot any more, for example because the rest of its response is in
    /// memory.
    Released,
}

/// The permits of a request's slot: one of the limit of requests of its host, if the host is known,
/// and one of the limit of all requests. They are free again when this is dropped.
#[derive(Debug)]
struct Permits {
    _host: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl RequestSlots {
    pub(super) fn new(requests_max: usize) -> Arc<RequestSlots> {
        Arc::new(RequestSlots {
            queue: Queue::new(requests_max),
            ids: AtomicU64::new(0),
            reclaimable: Mutex::default(),
            reclaimed_at: Mutex::default(),
        })
    }

    /// Returns the number of requests that wait for the common limit. Those that wait for the limit of
    /// their host are not counted.
    pub(super) fn waiting(&self) -> u64 {
        self.queue.waiting()
    }

    /// Waits until a request may be in flight and returns its slot. The request waits first in the
    /// queue of its host, so that a busy host does not fill the queue of all requests.
    pub(super) async fn slot(
        self: &Arc<RequestSlots>,
        host: HostRequests,
    ) -> Result<Arc<RequestSlot>, NoSlot> {
        let permits = self.permits(&host, WaitLimit::WhileMoving(Instant::now())).await?;
        Ok(Arc::new(RequestSlot {
            id: self.ids.fetch_add(1, Ordering::Relaxed),
            slots: Arc::clone(self),
            host,
            state: Mutex::new(SlotState::Held { _permits: permits, client_since: None }),
        }))
    }

    /// Waits for the permits of a request's slot: one of the limit of `host`, then one of the limit
    /// of all requests. `limit` bounds the waits. If a wait ends without a permit, fails with the
    /// name of that limit, `host_requests` or `requests`.
    async fn permits(&self, host: &HostRequests, limit: WaitLimit) -> Result<Permits, NoSlot> {
        let reclaim = || self.reclaim();
        let of_host = match host.queue() {
            None => None,
            Some(queue) => {
                let permit = queue.permit(limit, reclaim).await;
                Some(permit.ok_or(NoSlot("host_requests"))?)
            }
        };
        // The host's permit is held during this wait, so one host has at most its limit of requests
        // in the common queue.
        let all = self.queue.permit(limit, reclaim).await.ok_or(NoSlot("requests"))?;
        Ok(Permits { _host: of_host, _all: all })
    }

    /// Takes the slots of all requests that have waited for their clients for at least
    /// [`CLIENT_WAIT_MAX`], so that their permits become free. Does nothing if a pass ran within
    /// the last `RECLAIM_INTERVAL` or is running.
    fn reclaim(&self) {
        let now = Instant::now();
        {
            // If another request is reclaiming, its permits serve this one, too.
            let Ok(mut last) = self.reclaimed_at.try_lock() else { return };
            if last.is_some_and(|last| now < last + RECLAIM_INTERVAL) {
                return;
            }
            *last = Some(now);
        }
        // Collected first, so that the map is not locked while the states of slots are.
        let reclaimable: Vec<_> =
            lock(&self.reclaimable).values().filter_map(Weak::upgrade).collect();
        for slot in reclaimable {
            slot.reclaim(now);
        }
    }
}

impl RequestSlot {
    /// Records that the request waits for its client from now on.
    pub(super) fn wait_for_client(self: &Arc<RequestSlot>) {
        match &mut *lock(&self.state) {
            SlotState::Held { client_since, .. } if client_since.is_none() => {
                *client_since = Some(Instant::now());
            }
            SlotState::Held { .. } | SlotState::Reclaimed | SlotState::Released => return,
        }
        // A weak reference, so that the map does not keep the slot of a finished request.
        lock(&self.slots.reclaimable).entry(self.id).or_insert_with(|| Arc::downgrade(self));
    }

    /// Releases the slot for the rest of the request, which continues without a slot.
    pub(super) fn release(&self) {
        *lock(&self.state) = SlotState::Released;
    }

    /// Takes this slot from its request, so that its permits become free, if the request has waited
    /// for its client for at least `CLIENT_WAIT_MAX` at the time `now`.
    fn reclaim(&self, now: Instant) {
        let state = &mut *lock(&self.state);
        if let SlotState::Held { client_since: Some(since), .. } = state
            && now >= *since + CLIENT_WAIT_MAX
        {
            *state = SlotState::Reclaimed;
        }
    }

    /// Records that the client has continued. Returns false if the slot was reclaimed, so that the
    /// request must wait for one.
    fn client_continued(&self) -> bool {
        match &mut *lock(&self.state) {
            SlotState::Held { client_since, .. } => *client_since = None,
            SlotState::Reclaimed => return false,
            SlotState::Released => {}
        }
        true
    }

    /// Waits for new permits after another request took those of this slot. Fails with the name of
    /// the limit if there are none within `RESUME_WAIT`.
    async fn reacquire(self: Arc<RequestSlot>) -> Result<(), NoSlot> {
        let until = WaitLimit::Until(Instant::now() + RESUME_WAIT);
        let permits = self.slots.permits(&self.host, until).await?;
        let state = &mut *lock(&self.state);
        // If the request has released its slot during the wait, the new permits are dropped.
        if let SlotState::Reclaimed = state {
            *state = SlotState::Held { _permits: permits, client_since: None };
        }
        Ok(())
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        lock(&self.slots.reclaimable).remove(&self.id);
    }
}

/// The wait of a request or response body for its request's slot after the client has continued;
/// empty if the body does not wait.
#[derive(Default)]
pub(super) struct Resume(Option<Resuming>);

type Resuming = Pin<Box<dyn Future<Output = Result<(), NoSlot>> + Send>>;

impl Resume {
    /// Ready when the request has its slot, the permission to be in flight; at once if `slot` is
    /// `None` or the slot was not taken. Fails with `NoSlot` if it gets none within
    /// [`RESUME_WAIT`].
    pub(super) fn poll(
        &mut self,
        slot: Option<&Arc<RequestSlot>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), NoSlot>> {
        let Some(slot) = slot else { return Poll::Ready(Ok(())) };
        if self.0.is_none() && slot.client_continued() {
            return Poll::Ready(Ok(()));
        }
        let waiting = self.0.get_or_insert_with(|| Box::pin(Arc::clone(slot).reacquire()));
        let taken = ready!(waiting.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(taken)
    }
}

impl fmt::Debug for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resume").field("waits", &self.0.is_some()).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
