//! Slots. A slot is the permission of one request to be in flight, that is, to be served now.
//!
//! A slot counts for the limit of its host and the limit of all requests. A request keeps its slot
//! while the service works for it. While it waits for its client, another request may take the
//! slot, so a client that sends or reads slowly does not block others. When the client continues,
//! the request waits for a slot again. For example, if 512 uploads have all the slots, and their
//! clients have sent nothing for [`CLIENT_WAIT_MAX`], a GET takes one of the slots at once.
//!
//! A client that sends one byte at a time gains nothing by it: the waits are added up until the
//! client has sent or read [`PROGRESS_BYTES`].
//!
//! ```text
//! Held ◀── the client continues ──▶ Held, waiting for the client
//!  │▲                                      │ another request needs the slot
//!  │└─── a permit of both limits ─┬──── Reclaimed
//!  └── the service waits ────▶ GivenUp
//! ```
//!
//! A service gives the slot up itself while it waits for something that other clients hold, such as
//! memory, and while it receives a body whose sender it does not know yet
//! ([`RequestSlot::without`]).
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

/// The time for which a request certainly keeps its slot while it waits for its client. It is the
/// sum of all waits since the client last made progress. After it, another request may take the
/// slot.
const CLIENT_WAIT_MAX: Duration = Duration::from_millis(50);

/// The number of bytes that are progress of a client. After so many bytes of a body, the sum of the
/// waits starts at zero again.
const PROGRESS_BYTES: u64 = 16 << 10;

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
    occupancy: Mutex<Occupancy>,
}

/// The state of a slot and the waits of its request.
#[derive(Debug)]
struct Occupancy {
    state: SlotState,
    /// The sum of the finished waits for the client since its last progress.
    waited: Duration,
    /// The bytes that the client has sent or read since its last progress.
    bytes: u64,
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
    /// The service has given the permits up for a wait, and takes new ones after it. The body of
    /// the request passes without a slot.
    GivenUp,
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

    /// Returns the number of requests that wait for the common limit. Those that wait for the limit
    /// of their host are not counted.
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
            occupancy: Mutex::new(Occupancy {
                state: SlotState::Held { _permits: permits, client_since: None },
                waited: Duration::ZERO,
                bytes: 0,
            }),
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
    /// Records that the request waits for its client from now on. If the client has used up its
    /// time already and other requests wait for slots, the slot is free at once.
    pub(super) fn wait_for_client(self: &Arc<RequestSlot>) {
        let mut occupancy = lock(&self.occupancy);
        let is_wanted = occupancy.waited >= CLIENT_WAIT_MAX && self.is_wanted();
        match &mut occupancy.state {
            SlotState::Held { .. } if is_wanted => {
                occupancy.state = SlotState::Reclaimed;
            }
            SlotState::Held { client_since, .. } if client_since.is_none() => {
                *client_since = Some(Instant::now());
                // A weak reference, so that the map does not keep the slot of a finished request.
                let slot = || Arc::downgrade(self);
                lock(&self.slots.reclaimable).entry(self.id).or_insert_with(slot);
            }
            SlotState::Held { .. }
            | SlotState::Reclaimed
            | SlotState::GivenUp
            | SlotState::Released => {}
        }
    }

    /// Returns true if other requests wait for a permit that this slot has.
    fn is_wanted(&self) -> bool {
        self.slots.waiting() > 0 || self.host.queue().is_some_and(|queue| queue.waiting() > 0)
    }

    /// Counts bytes that the client has sent or read. After [`PROGRESS_BYTES`] the request may wait
    /// for its client again.
    pub(super) fn count_progress(&self, bytes: u64) {
        let mut occupancy = lock(&self.occupancy);
        occupancy.bytes += bytes;
        if occupancy.bytes >= PROGRESS_BYTES {
            (occupancy.bytes, occupancy.waited) = (0, Duration::ZERO);
        }
    }

    /// Releases the slot for the rest of the request, which continues without a slot.
    pub(super) fn release(&self) {
        lock(&self.occupancy).state = SlotState::Released;
    }

    /// Waits for `wait`, and gives the slot up meanwhile unless `wait` is ready at once. Then waits
    /// for a slot again. Fails with `NoSlot` if there is none within [`RESUME_WAIT`].
    pub(super) async fn without<F: Future>(self: &Arc<Self>, wait: F) -> Result<F::Output, NoSlot> {
        let mut wait = std::pin::pin!(wait);
        if let Poll::Ready(output) = futures::poll!(wait.as_mut()) {
            return Ok(output);
        }
        let needs_slot = {
            let mut occupancy = lock(&self.occupancy);
            match &occupancy.state {
                SlotState::Held { .. } | SlotState::Reclaimed => {
                    occupancy.state = SlotState::GivenUp;
                    true
                }
                // A response may be on its way, or an outer wait takes the slot again.
                SlotState::GivenUp | SlotState::Released => false,
            }
        };
        let output = wait.await;
        if needs_slot {
            Arc::clone(self).reacquire().await?;
        }
        Ok(output)
    }

    /// Takes this slot from its request, so that its permits become free, if the request waits for
    /// its client at the time `now` and its waits have reached `CLIENT_WAIT_MAX`.
    fn reclaim(&self, now: Instant) {
        let mut occupancy = lock(&self.occupancy);
        if let SlotState::Held { client_since: Some(since), .. } = occupancy.state
            && occupancy.waited + now.saturating_duration_since(since) >= CLIENT_WAIT_MAX
        {
            occupancy.waited = CLIENT_WAIT_MAX;
            occupancy.state = SlotState::Reclaimed;
        }
        // Without permits there is nothing to reclaim. `wait_for_client` adds the slot again when
        // it has some, and cannot run before this lock is free.
        if !matches!(occupancy.state, SlotState::Held { .. }) {
            lock(&self.slots.reclaimable).remove(&self.id);
        }
    }

    /// Records that the client has continued. Returns false if the slot was reclaimed, so that the
    /// request must wait for one.
    fn client_continued(&self) -> bool {
        let mut occupancy = lock(&self.occupancy);
        match &mut occupancy.state {
            SlotState::Held { client_since, .. } => {
                let waited = client_since.take().map(|since| since.elapsed());
                occupancy.waited += waited.unwrap_or_default();
            }
            SlotState::Reclaimed => return false,
            SlotState::GivenUp | SlotState::Released => {}
        }
        true
    }

    /// Waits for new permits after another request took those of this slot, or the service gave
    /// them up. Fails with the name of the limit if there are none within `RESUME_WAIT`.
    async fn reacquire(self: Arc<RequestSlot>) -> Result<(), NoSlot> {
        let until = WaitLimit::Until(Instant::now() + RESUME_WAIT);
        let permits = self.slots.permits(&self.host, until).await?;
        let mut occupancy = lock(&self.occupancy);
        match occupancy.state {
            SlotState::Reclaimed | SlotState::GivenUp => {
                occupancy.state = SlotState::Held { _permits: permits, client_since: None };
            }
            // If the request has released its slot during the wait, the new permits are dropped.
            SlotState::Held { .. } | SlotState::Released => {}
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

/// The slot of a request, for its service: an extension of each request that is handled. The
/// service gives the slot up while it waits for something other than its own work.
#[derive(Clone, Debug)]
pub struct GivableSlot(Arc<RequestSlot>);

/// The request waited for a slot after it had given its own up, and got none in time. It is to be
/// refused as [`Refusal::Busy`](crate::Refusal::Busy).
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("other requests were served first")]
pub struct SlotLost;

impl GivableSlot {
    pub(super) fn new(slot: &Arc<RequestSlot>) -> GivableSlot {
        GivableSlot(Arc::clone(slot))
    }

    /// Waits for `wait`. If it is not ready at once, the request holds no slot meanwhile, so that
    /// others are served; the body of the request can still be read. For example, `wait` is the
    /// wait for memory that other clients hold.
    ///
    /// # Errors
    /// Fails with `SlotLost` if the request gets no slot in time after `wait`.
    pub async fn without<F: Future>(&self, wait: F) -> Result<F::Output, SlotLost> {
        self.0.without(wait).await.map_err(|NoSlot(limit)| {
            tracing::debug!(limit, "a request that had given its slot up got none in time");
            SlotLost
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
