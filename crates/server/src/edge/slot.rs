//! Slots: the right of a request to be carried out now.
//!
//! A slot counts against the limit of its host and the limit of all requests. A request keeps its
//! slot while the gateway works for it. While it waits for its client, another request may take the
//! slot: a client that sends its body slowly, or takes an answer slowly, costs others nothing.
//! When the client goes on, the request waits for a slot again.
//!
//! ```text
//! Held ◀── the client goes on ──▶ Held since a client is waited for
//!   ▲                                      │ another request needs the slot
//!   └─── a permit of both limits ────── Reclaimed
//! ```
//!
//! From each state a slot may be released for good.

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

use super::hosts::HostRequests;
use super::queue::{Patience, Queue};

/// A request keeps its slot this long while it waits for its client.
const CLIENT_WAIT_MAX: Duration = Duration::from_millis(50);

/// How long a request whose client has gone on waits for a slot again.
const RESUME_WAIT: Duration = Duration::from_secs(10);

/// How often the slots of waiting requests are gone through at most.
const SWEEP_EVERY: Duration = Duration::from_millis(10);

/// The slots of all requests.
#[derive(Debug)]
pub(super) struct RequestSlots {
    queue: Queue,
    ids: AtomicU64,
    /// Slots whose requests have waited for their clients.
    lent: Mutex<HashMap<u64, Weak<RequestSlot>>>,
    swept: Mutex<Option<Instant>>,
}

/// There was no slot in time. Holds the name of the limit.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no permit of the limit {0} within the deadline")]
pub(super) struct NoSlot(pub(super) &'static str);

/// The slot of one request.
#[derive(Debug)]
pub(super) struct RequestSlot {
    id: u64,
    slots: Arc<RequestSlots>,
    host: HostRequests,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
enum SlotState {
    /// The request counts. If it waits for its client, since when.
    Held { _permits: Permits, client_since: Option<Instant> },
    /// Another request took the slot.
    Reclaimed,
    /// The request needs no slot any more.
    Released,
}

/// A permit of the host's limit, if it has one, and one of the limit of all requests.
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
            lent: Mutex::default(),
            swept: Mutex::default(),
        })
    }

    /// Waits for a slot: first among the requests of its host, so that a busy host waits behind
    /// itself.
    pub(super) async fn slot(
        self: &Arc<RequestSlots>,
        host: HostRequests,
    ) -> Result<Arc<RequestSlot>, NoSlot> {
        let permits = self.permits(&host, Patience::WhileMoving(Instant::now())).await?;
        Ok(Arc::new(RequestSlot {
            id: self.ids.fetch_add(1, Ordering::Relaxed),
            slots: Arc::clone(self),
            host,
            state: Mutex::new(SlotState::Held { _permits: permits, client_since: None }),
        }))
    }

    async fn permits(&self, host: &HostRequests, patience: Patience) -> Result<Permits, NoSlot> {
        let reclaim = || self.reclaim();
        let of_host = match host.queue() {
            None => None,
            Some(queue) => {
                let permit = queue.permit(patience, reclaim).await;
                Some(permit.ok_or(NoSlot("host_requests"))?)
            }
        };
        let all = self.queue.permit(patience, reclaim).await.ok_or(NoSlot("requests"))?;
        Ok(Permits { _host: of_host, _all: all })
    }

    /// Takes the slots of requests that have waited for their clients for a while.
    fn reclaim(&self) {
        let now = Instant::now();
        {
            let Ok(mut swept) = self.swept.try_lock() else { return };
            if swept.is_some_and(|swept| now < swept + SWEEP_EVERY) {
                return;
            }
            *swept = Some(now);
        }
        let lent: Vec<_> = lock(&self.lent).values().filter_map(Weak::upgrade).collect();
        for slot in lent {
            slot.reclaim(now);
        }
    }
}

impl RequestSlot {
    /// Notes that the request waits for its client from now on.
    pub(super) fn waits_for_client(self: &Arc<RequestSlot>) {
        match &mut *lock(&self.state) {
            SlotState::Held { client_since, .. } if client_since.is_none() => {
                *client_since = Some(Instant::now());
            }
            SlotState::Held { .. } | SlotState::Reclaimed | SlotState::Released => return,
        }
        lock(&self.slots.lent).entry(self.id).or_insert_with(|| Arc::downgrade(self));
    }

    /// Gives the slot back for good.
    pub(super) fn release(&self) {
        *lock(&self.state) = SlotState::Released;
    }

    /// Gives the slot to another request if this one waits for its client.
    fn reclaim(&self, now: Instant) {
        let state = &mut *lock(&self.state);
        if let SlotState::Held { client_since: Some(since), .. } = state
            && now >= *since + CLIENT_WAIT_MAX
        {
            *state = SlotState::Reclaimed;
        }
    }

    /// Notes that the client has gone on. Returns false if the slot must be taken again first.
    fn goes_on(&self) -> bool {
        match &mut *lock(&self.state) {
            SlotState::Held { client_since, .. } => *client_since = None,
            SlotState::Reclaimed => return false,
            SlotState::Released => {}
        }
        true
    }

    /// Waits for a slot again.
    async fn take_again(self: Arc<RequestSlot>) -> Result<(), NoSlot> {
        let until = Patience::Until(Instant::now() + RESUME_WAIT);
        let permits = self.slots.permits(&self.host, until).await?;
        let state = &mut *lock(&self.state);
        if let SlotState::Reclaimed = state {
            *state = SlotState::Held { _permits: permits, client_since: None };
        }
        Ok(())
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        lock(&self.slots.lent).remove(&self.id);
    }
}

/// What a body needs to go on after its client was waited for.
#[derive(Default)]
pub(super) struct Resume(Option<Resuming>);

type Resuming = Pin<Box<dyn Future<Output = Result<(), NoSlot>> + Send>>;

impl Resume {
    /// Ready when the request has its slot. An error if there was none in time.
    pub(super) fn poll(
        &mut self,
        slot: Option<&Arc<RequestSlot>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), NoSlot>> {
        let Some(slot) = slot else { return Poll::Ready(Ok(())) };
        if self.0.is_none() && slot.goes_on() {
            return Poll::Ready(Ok(()));
        }
        let again = self.0.get_or_insert_with(|| Box::pin(Arc::clone(slot).take_again()));
        let taken = ready!(again.as_mut().poll(cx));
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
