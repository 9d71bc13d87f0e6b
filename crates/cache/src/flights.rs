//! Pages that are being fetched: further readers wait for them.
//!
//! A page is fetched by one *lead* at a time. If its fetch fails, it says so, and each of those who wait
//! tries by itself. If it is dropped, the next reader becomes the lead. A page gets into memory before its
//! lead ends, so that nobody fetches it again in between.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::page::PageKey;

/// The pages that are being fetched. Bounded by what readers ask for at a time.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<HashMap<PageKey, watch::Receiver<Landing>>>);

/// What became of a fetch.
#[derive(Clone, Debug)]
enum Landing {
    Under,
    Page(Bytes),
    Failed,
}

/// The one who fetches a page.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) key: PageKey,
    landing: watch::Sender<Landing>,
    flights: Arc<Flights>,
}

/// What somebody finds who wants a page that is not in memory.
#[derive(Debug)]
pub(crate) enum Boarding {
    /// It came into memory meanwhile.
    Known(Bytes),
    /// Nobody fetches it yet: the caller does.
    Lead(Lead),
    /// Somebody fetches it.
    Wait(Waiter),
}

/// One of those who wait for a lead.
#[derive(Debug)]
pub(crate) struct Waiter(watch::Receiver<Landing>);

/// How waiting ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// With the page.
    Page(Bytes),
    /// The lead's fetch failed.
    Failed,
    /// The lead was dropped before anything was known.
    Left,
}

impl Flights {
    /// Finds or takes the lead for a page. `known` looks into memory once more.
    pub(crate) fn board(
        self: &Arc<Flights>,
        key: PageKey,
        known: impl FnOnce() -> Option<Bytes>,
    ) -> Boarding {
        let mut flights = self.lock();
        if let Some(landing) = flights.get(&key) {
            return Boarding::Wait(Waiter(landing.clone()));
        }
        if let Some(page) = known() {
            return Boarding::Known(page);
        }
        let (landing, waiting) = watch::channel(Landing::Under);
        flights.insert(key, waiting);
        drop(flights);
        Boarding::Lead(Lead { key, landing, flights: Arc::clone(self) })
    }

    /// Whether somebody fetches this page now.
    pub(crate) fn is_under(&self, key: PageKey) -> bool {
        self.lock().contains_key(&key)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PageKey, watch::Receiver<Landing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// Gives the page to all who wait. It is in memory already.
    pub(crate) fn land(self, page: Bytes) {
        self.landing.send_replace(Landing::Page(page));
    }

    /// Tells all who wait that the page could not be fetched.
    pub(crate) fn fail(self) {
        self.landing.send_replace(Landing::Failed);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.flights.lock().remove(&self.key);
    }
}

impl Waiter {
    /// Waits until the lead is done, or gone.
    pub(crate) async fn wait(mut self) -> Waited {
        loop {
            match &*self.0.borrow_and_update() {
                Landing::Page(page) => return Waited::Page(page.clone()),
                Landing::Failed => return Waited::Failed,
                Landing::Under => {}
            }
            if self.0.changed().await.is_err() {
                return match &*self.0.borrow() {
                    Landing::Page(page) => Waited::Page(page.clone()),
                    Landing::Failed => Waited::Failed,
                    Landing::Under => Waited::Left,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests;
