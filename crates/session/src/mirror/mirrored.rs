//! A metadata store whose records are mirrored.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, Durability, Found, Limits, MetaStore, Page, Plan, Position, Read, Snapshot, Space,
    StoreError, StoreErrorKind, TallyPage, Verdict,
};

use super::Mirror;

/// A store, and the records of it that are known without asking.
#[derive(Debug)]
pub(crate) struct Mirrored {
    store: Arc<dyn MetaStore>,
    mirror: Arc<Mirror>,
}

impl Mirrored {
    pub(crate) fn new(store: Arc<dyn MetaStore>, mirror: Arc<Mirror>) -> Mirrored {
        Mirrored { store, mirror }
    }
}

#[async_trait]
impl MetaStore for Mirrored {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<Found>, StoreError> {
        self.store.limits().check_read(reads)?;
        if let Some(found) = self.mirror.answer(reads) {
            return Ok(found);
        }
        let reading = self.mirror.reading();
        let found = self.store.read(reads).await?;
        reading.found(reads, &found);
        Ok(found)
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        let sending = self.mirror.sending(plans);
        match self.store.commit(plans).await {
            Ok(verdicts) => {
                sending.decided(plans, &verdicts);
                Ok(verdicts)
            }
            Err(error) => {
                if error.kind() == StoreErrorKind::Unknown {
                    drop(sending);
                } else {
                    sending.undone();
                }
                Err(error)
            }
        }
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.store.walk(space, resume, limit).await
    }

    async fn walk_tallies(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<TallyPage, StoreError> {
        self.store.walk_tallies(space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.store.changes(since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.store.snapshot().await
    }

    async fn close(&self) {
        self.mirror.leave();
        self.store.close().await;
    }
}
