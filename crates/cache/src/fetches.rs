//! Fetches of pages that are under way: later readers of a page wait for them.
//!
//! Each page is fetched by one *lead* at a time. If the fetch fails, the lead notifies the waiters,
//! and each of them fetches the page by itself. If the lead is dropped, one of the waiters becomes
//! the lead. If the cache keeps the page, it enters memory before its lead ends, so that no other
//! reader fetches it again in between.
//!
//! For example, 100 clients request the same page at the same time. One of them sends the request,
//! and 99 wait for its result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::page::PageKey;

/// The fetches under way. There are at most as many as pages that readers request at the same time.
#[derive(Debug, Default)]
pub(crate) struct Fetches(Mutex<HashMap<PageKey, watch::Receiver<FetchState>>>);

/// The state of a fetch.
///
/// ```text
/// Pending --> Page     the lead has the page
///       --> Failed   the lead's request failed
///       --> (closed) the lead was dropped
/// ```
#[derive(Clone, Debug)]
enum FetchState {
    Pending,
    Page(Bytes),
    Failed,
}

/// The lead of a page: the reader that fetches it for all others that wait for it.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) key: PageKey,
    state: watch::Sender<FetchState>,
    fetches: Arc<Fetches>,
}

/// The result of asking to fetch a page that was not in memory.
#[derive(Debug)]
pub(crate) enum FetchTurn {
    /// The page has entered memory meanwhile.
    Known(Bytes),
    /// No reader fetches the page: the caller has to.
    Lead(Lead),
    /// Another reader fetches the page; the caller waits for its result.
    Wait(Waiter),
}

/// A reader that waits for the page which another reader, the lead, fetches.
#[derive(Debug)]
pub(crate) struct Waiter(watch::Receiver<FetchState>);

/// The result of waiting for a page that another reader fetches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The page, as the other reader has fetched it.
    Page(Bytes),
    /// The other reader's request failed. The waiter fetches the page by itself.
    Failed,
    /// The other reader was dropped before its request ended. One of the waiters takes its place.
    Abandoned,
}

impl Fetches {
    /// Makes the caller the lead for a page, that is, the reader that fetches it for all, or a
    /// waiter if there is a lead. `known` looks into memory once more, under the lock.
    pub(crate) fn join(
        self: &Arc<Fetches>,
        key: PageKey,
        known: impl FnOnce() -> Option<Bytes>,
    ) -> FetchTurn {
        let mut fetches = self.lock();
        if let Some(state) = fetches.get(&key) {
            return FetchTurn::Wait(Waiter(state.clone()));
        }
        // Looked up under the lock: the lead puts the page into memory before it leaves the map.
        if let Some(page) = known() {
            return FetchTurn::Known(page);
        }
        let (state, waiting) = watch::channel(FetchState::Pending);
        fetches.insert(key, waiting);
        drop(fetches);
        FetchTurn::Lead(Lead { key, state, fetches: Arc::clone(self) })
    }

    /// Returns true if the page is being fetched.
    pub(crate) fn is_fetching(&self, key: PageKey) -> bool {
        self.lock().contains_key(&key)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PageKey, watch::Receiver<FetchState>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// Gives the fetched page to all waiters. If the cache keeps the page, it must be in memory
    /// already.
    pub(crate) fn complete(self, page: Bytes) {
        self.state.send_replace(FetchState::Page(page));
    }

    /// Notifies all waiters that the page could not be fetched.
    pub(crate) fn fail(self) {
        self.state.send_replace(FetchState::Failed);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.fetches.lock().remove(&self.key);
    }
}

impl Waiter {
    /// Waits until the reader that fetches the page has ended or was dropped.
    pub(crate) async fn wait(mut self) -> Waited {
        loop {
            match &*self.0.borrow_and_update() {
                FetchState::Page(page) => return Waited::Page(page.clone()),
                FetchState::Failed => return Waited::Failed,
                FetchState::Pending => {}
            }
            // The channel is closed when the lead is dropped, which is also the case after a
            // result.
            if self.0.changed().await.is_err() {
                return match &*self.0.borrow() {
                    FetchState::Page(page) => Waited::Page(page.clone()),
                    FetchState::Failed => Waited::Failed,
                    FetchState::Pending => Waited::Abandoned,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests;
