//! Snapshots: the volume at one instant, while other commits continue.
//!
//! This is copy on write. While a snapshot is open, the commit script first saves the old bytes of
//! each record or counter that it changes, unless they are saved already. The reader reads one
//! space at a time. It collects the keys that exist now, then those that were saved; together they
//! include all that existed when the snapshot was opened. It sorts them and reads the value of
//! each: the saved one if there is one, otherwise the present one. It holds the keys of one space
//! in memory.
//!
//! For example, a record is deleted while the snapshot is open: its old bytes were saved, so the
//! reader returns them.
//!
//! The server drops a snapshot whose reader is silent for too long, by the server's clock. This
//! happens within a script, so a page is either correct or an error.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value as Reply;
use store::{CounterKey, Key, Snapshot, Space, StoreError, StoreErrorKind, Value};

use crate::connect::{Call, Link, Links};
use crate::limits::LIMITS;
use crate::walk::{self, BEGINNING};
use crate::{error, reply};

/// Largest number of snapshots of one volume that may be open at a time. Each makes commits more
/// expensive.
const SNAPSHOTS_MAX: usize = 8;

/// Approximate limit of the bytes of values in one answer.
const PAGE_BYTES: usize = 4 << 20;

/// Limit of the values that one script reads.
const PAGE_VALUES_MAX: usize = 1_000;

/// The codes of records and counters in scripts.
const RECORDS: u8 = b'r';
const COUNTERS: u8 = b'n';

const DOING: &str = "reading a snapshot";

/// An open snapshot, and the positions up to which its owner has read it.
#[derive(Debug)]
pub(crate) struct RedisSnapshot {
    reader: Reader,
    records: Walk,
    counters: Walk,
}

/// The part of a snapshot that asks the server for its pages.
#[derive(Debug)]
struct Reader {
    links: Arc<Links>,
    link: Link,
    id: String,
    patience: String,
}

/// The position of a snapshot's owner in the records or the counters.
#[derive(Debug)]
struct Walk {
    /// The code of the kind that is read: `RECORDS` or `COUNTERS`.
    kind: u8,
    /// The space to which the keys in `fields` belong.
    space: Space,
    /// The keys of the space, without the space's byte, that were not read yet, in order.
    fields: VecDeque<Vec<u8>>,
    /// The spaces to read after this one.
    spaces: VecDeque<u8>,
}

impl Walk {
    fn over(kind: u8, spaces: Vec<u8>) -> Walk {
        Walk { kind, space: Space(0), fields: VecDeque::new(), spaces: spaces.into() }
    }

    fn place(&self) -> [u8; 2] {
        [self.kind, self.space.0]
    }
}

impl RedisSnapshot {
    /// Takes a snapshot, over a connection of its own.
    pub(crate) async fn open(
        links: &Arc<Links>,
        patience: Duration,
    ) -> Result<RedisSnapshot, StoreError> {
        const DOING: &str = "taking a snapshot";
        let link = links.connect(DOING).await?;
        let patience = patience.as_millis().max(1).to_string();
        let most = SNAPSHOTS_MAX.to_string();
        let arguments = [&b"open"[..], patience.as_bytes(), most.as_bytes()];
        let call = Call::script(links, &links.scripts.snapshot, arguments, DOING);
        let answer = link.call(&call).await?;
        if answer == Reply::Nil {
            let doing = format!("{DOING}: {SNAPSHOTS_MAX} are open already");
            return Err(StoreError::new(StoreErrorKind::Unavailable, doing));
        }
        let parts = reply::list(answer).and_then(|parts| <[Reply; 3]>::try_from(parts).ok());
        let garbled = || error::garbled(DOING);
        let [id, records, counters] = parts.ok_or_else(garbled)?;
        let id = reply::text(id).ok_or_else(garbled)?;
        let spaces = |answer| reply::bytes(answer).flatten().map(Vec::from).ok_or_else(garbled);
        Ok(RedisSnapshot {
            reader: Reader { links: Arc::clone(links), link, id, patience },
            records: Walk::over(RECORDS, spaces(records)?),
            counters: Walk::over(COUNTERS, spaces(counters)?),
        })
    }
}

impl Reader {
    /// Returns the fields of the next page with their old bytes; an empty page is the end. After an
    /// error, or if the caller goes away, the position is unchanged.
    async fn page(&mut self, walk: &mut Walk, limit: u32) -> Result<Vec<(Key, Reply)>, StoreError> {
        if !self.link.is_alive() {
            self.link = self.links.connect(DOING).await?;
        }
        loop {
            if walk.fields.is_empty() {
                let Some(space) = walk.spaces.front().copied() else { return Ok(Vec::new()) };
                walk.space = Space(space);
                walk.fields = self.fields(walk.place()).await?.into();
                // Only now, so that a call that is dropped or fails before reads this space again.
                walk.spaces.pop_front();
            }
            let asked = LIMITS.page(limit).min(PAGE_VALUES_MAX).min(walk.fields.len());
            let bytes = PAGE_BYTES.to_string();
            let place = walk.place();
            let arguments = [&place[..], bytes.as_bytes()];
            let fields = walk.fields.iter().take(asked).map(|field| &field[..]);
            let answer = self.ask(b"values", arguments.into_iter().chain(fields)).await?;
            let answers = reply::list(answer).ok_or_else(|| error::garbled(DOING))?;
            if answers.len() > asked || answers.is_empty() && asked > 0 {
                return Err(error::garbled(DOING));
            }
            let fields = walk.fields.drain(..answers.len());
            let there = fields.zip(answers).filter(|(_, answer)| *answer != Reply::Nil);
            let key = if walk.kind == RECORDS { walk::record_key } else { walk::key };
            let page: Option<Vec<_>> =
                there.map(|(field, answer)| Some((key(walk.space, &field)?, answer))).collect();
            let page = page.ok_or_else(|| error::garbled(DOING))?;
            if !page.is_empty() {
                return Ok(page);
            }
        }
    }

    /// Returns each field of a space that existed, and some newer ones, in order. All scans use one
    /// connection, because the cursor of a scan is not valid after the server restarts.
    async fn fields(&self, place: [u8; 2]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut fields = Vec::new();
        // A record that is deleted before the first scan reaches it has been saved, so the second
        // scan finds it.
        for verb in [&b"keys"[..], b"saved"] {
            let mut from = Bytes::from_static(BEGINNING);
            loop {
                let answer = self.ask(verb, [&place[..], &from].into_iter()).await?;
                let page;
                (from, page) = scanned(answer).ok_or_else(|| error::garbled(DOING))?;
                fields.extend(page);
                if from == BEGINNING {
                    break;
                }
            }
        }
        // A field may come from both scans, and a scan may return a field twice.
        fields.sort_unstable();
        fields.dedup();
        Ok(fields)
    }

    /// Calls the snapshot's script, which also keeps the snapshot open.
    async fn ask<'a>(
        &'a self,
        verb: &'a [u8],
        arguments: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Reply, StoreError> {
        let mine = [verb, self.id.as_bytes(), self.patience.as_bytes()];
        let arguments = mine.into_iter().chain(arguments);
        let script = &self.links.scripts.snapshot;
        let call = Call::script(&self.links, script, arguments, DOING);
        match self.link.call(&call).await? {
            Reply::Nil => Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!("{DOING}: it took too long between pages, and the server has ended it"),
            )),
            answer => Ok(answer),
        }
    }
}

fn scanned(answer: Reply) -> Option<(Bytes, Vec<Vec<u8>>)> {
    let mut answer = reply::list(answer)?.into_iter();
    let next = reply::bytes(answer.next()?)??;
    let fields = reply::list(answer.next()?)?.into_iter();
    let fields: Option<Vec<_>> =
        fields.map(|field| Some(Vec::from(reply::bytes(field)??))).collect();
    Some((next, fields?))
}

#[async_trait]
impl Snapshot for RedisSnapshot {
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError> {
        let page = self.reader.page(&mut self.records, limit).await;
        let records = page?.into_iter().map(|(key, value)| Some((key, reply::record(value)??)));
        let records: Option<Vec<_>> = records.collect();
        records.ok_or_else(|| error::garbled(DOING))
    }

    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError> {
        let page = self.reader.page(&mut self.counters, limit).await;
        let counters =
            page?.into_iter().map(|(key, number)| Some((CounterKey(key), reply::counter(number)?)));
        let counters: Option<Vec<_>> = counters.collect();
        counters.ok_or_else(|| error::garbled(DOING))
    }
}

impl Drop for RedisSnapshot {
    fn drop(&mut self) {
        // If this call does not arrive, the snapshot expires.
        let Reader { links, link, id, .. } = &self.reader;
        let arguments = [&b"close"[..], id.as_bytes()];
        let script = &links.scripts.snapshot;
        let call = Call::script(links, script, arguments, "closing a snapshot");
        let link = link.clone();
        links.in_background(async move {
            if let Err(error) = link.call(&call).await {
                tracing::debug!(%error, "a snapshot was not closed and will expire");
            }
        });
    }
}
