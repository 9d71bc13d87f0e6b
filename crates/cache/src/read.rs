//! One read: memory, then the disk, then the block store for what is still missing.

use std::ops::Range;

use async_trait::async_trait;
use block::{
    Arrival, BlockError, BlockErrorKind, BlockId, BlockReader, BlockRef, BlockStore, Opened,
    SUB_BLOCK_BYTES, SubBlock, get_known, sealed,
};
use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;
use tracing::warn;

use crate::disk::{self, Disk};
use crate::flights::{Boarding, Lead, Waited};
use crate::page::{Page, PageKey, page_bytes};
use crate::{Cache, SCAN_MEMORY_BYTES, SCAN_PAGES_MIN};

/// Free memory below which a cache has no room to spare: its parts do not fill up evenly.
const MARGIN_BYTES: usize = 1 << 20;

/// The pages of one read, as far as they were found.
struct Wanted {
    block: BlockRef,
    range: Range<u32>,
    /// The index of the first page.
    first: u32,
    found: Vec<Option<Bytes>>,
}

impl Wanted {
    /// The pages of a range that lies within its block and is not empty.
    fn new(block: BlockRef, range: Range<u32>) -> Option<Wanted> {
        if range.start >= range.end || range.end > block.length {
            return None;
        }
        let first = range.start / SUB_BLOCK_BYTES;
        let pages = range.end.div_ceil(SUB_BLOCK_BYTES) - first;
        Some(Wanted { block, range, first, found: vec![None; pages as usize] })
    }

    fn key(&self, index: u32) -> PageKey {
        PageKey { block: self.block.id, index }
    }

    /// Every page of the read: its index, and whether it was found.
    fn pages(&self) -> impl Iterator<Item = (u32, bool)> {
        (self.first..).zip(self.found.iter().map(Option::is_some))
    }

    fn missing(&self) -> Vec<u32> {
        self.pages().filter_map(|(index, found)| (!found).then_some(index)).collect()
    }

    fn put(&mut self, index: u32, page: Bytes) {
        let place = index.checked_sub(self.first).and_then(|at| self.found.get_mut(at as usize));
        if let Some(place) = place {
            *place = Some(page);
        }
    }

    /// The pages of the range, cut to it; `None` if one is missing.
    fn into_pieces(self) -> Option<Vec<Bytes>> {
        let Range { start, end } = self.range;
        let cut = |(index, page): (u32, Option<Bytes>)| {
            let place = index * SUB_BLOCK_BYTES;
            let mut page = page?;
            page.truncate(end.saturating_sub(place) as usize);
            let skip = start.saturating_sub(place) as usize;
            Some(page.split_off(skip.min(page.len())))
        };
        (self.first..).zip(self.found).map(cut).collect()
    }
}

#[async_trait]
impl<B: BlockStore> BlockReader for Cache<B> {
    async fn read(&self, block: BlockRef, range: Range<u32>) -> Result<Vec<Bytes>, BlockError> {
        let Some(mut wanted) = Wanted::new(block, range.clone()) else {
            // An empty range has no pieces, and one outside of its block is an error.
            return sealed::open(block, range, Bytes::new());
        };
        for index in wanted.missing() {
            if let Some(page) = self.known(&wanted, index) {
                wanted.put(index, page);
                self.metrics.memory_hits.add(1);
            }
        }
        if let Some(disk) = &self.disk {
            self.look_on_disk(disk, &mut wanted).await;
        }
        self.fetch_missing(&mut wanted).await?;
        wanted.into_pieces().ok_or_else(|| {
            let doing = format!("reading bytes {range:?} of block {}", block.id);
            BlockError::because(BlockErrorKind::Corrupt, doing, "a page is missing")
        })
    }

    fn in_memory(&self, block: BlockRef, range: Range<u32>) -> Option<Vec<Bytes>> {
        let mut wanted = Wanted::new(block, range)?;
        for at in 0..wanted.found.len() {
            let index = wanted.first + u32::try_from(at).ok()?;
            let page = self.known(&wanted, index)?;
            wanted.put(index, page);
        }
        self.metrics.memory_hits.add(wanted.found.len());
        wanted.into_pieces()
    }

    fn remember(&self, block: BlockId, sub_block: &Opened) {
        if self.take_in(block, sub_block, false) {
            self.metrics.remembered.add(1);
        }
    }

    /// A page that the range holds in part may be somebody else's, and stays.
    fn forget(&self, block: BlockId, range: Range<u32>) {
        let whole = range.start.div_ceil(SUB_BLOCK_BYTES)..range.end / SUB_BLOCK_BYTES;
        for index in whole {
            if self.pages.memory().remove(&PageKey { block, index }).is_some() {
                self.metrics.forgotten.add(1);
            }
        }
    }

    fn arrival(&self, block: BlockRef, range: Range<u32>) -> Option<Arrival> {
        if !Arrival::pays(block, &range) || !self.blocks.streams() {
            return None;
        }
        let cold = self.cold(block, range);
        if !Arrival::pays(block, &cold) {
            return None;
        }
        let claim = self.claims.take(block.id)?;
        Some(Arrival::new(block, cold, Some(Box::new(claim))))
    }

    async fn open(&self, arrival: &mut Arrival) -> Result<(), BlockError> {
        let before = arrival.second_reads();
        let opened = arrival.open(&self.blocks).await;
        self.metrics.second_reads.add((arrival.second_reads() - before) as usize);
        opened
    }

    async fn advance(&self, arrival: &mut Arrival) -> Result<bool, BlockError> {
        let (before, block) = (arrival.second_reads(), arrival.block_id());
        let scan = arrival.sub_blocks() >= SCAN_PAGES_MIN;
        let take_in = |opened: &Opened| {
            let length: usize = opened.pieces.iter().map(Bytes::len).sum();
            self.metrics.misses.add(1);
            self.metrics.fetched_bytes.add(length + sealed::CHECKSUM_BYTES as usize);
            if self.take_in(block, opened, scan) {
                self.metrics.admitted.add(1);
            }
        };
        let advanced = arrival.advance(&self.blocks, take_in).await;
        self.metrics.second_reads.add((arrival.second_reads() - before) as usize);
        advanced
    }
}

impl<B: BlockStore> Cache<B> {
    /// The beginning of a range as far as none of its pages is known, or on its way to somebody.
    fn cold(&self, block: BlockRef, range: Range<u32>) -> Range<u32> {
        let Some(wanted) = Wanted::new(block, range.clone()) else { return range };
        let on_disk = |key: &PageKey| {
            let asked = self.disk.as_ref().is_some_and(Disk::is_asked);
            asked && self.pages.storage().may_contains(key)
        };
        let known = |index: &u32| {
            let key = wanted.key(*index);
            self.pages.memory().contains(&key) || self.flights.is_under(key) || on_disk(&key)
        };
        let end = wanted.missing().into_iter().find(known);
        let end = end.map_or(range.end, |index| index.saturating_mul(SUB_BLOCK_BYTES));
        range.start..end.min(range.end).max(range.start)
    }

    /// Takes a page that passes by into memory, if it is worth a place; whether it was.
    fn take_in(&self, block: BlockId, opened: &Opened, scan: bool) -> bool {
        let key = PageKey { block, index: opened.index };
        let Some(written) = self.worth(key, scan) else { return false };
        self.keep(Page::copied(key, opened.checksum, &opened.pieces), written);
        true
    }

    /// A page that is in memory.
    fn known(&self, wanted: &Wanted, index: u32) -> Option<Bytes> {
        let key = wanted.key(index);
        let entry = self.pages.memory().get(&key)?;
        entry.value().content_of(key, page_bytes(wanted.block.length, index))
    }

    /// Looks for what is missing on the disk, as long as it answers in time.
    async fn look_on_disk(&self, disk: &Disk, wanted: &mut Wanted) {
        let indexed = |index: &u32| self.pages.storage().may_contains(&wanted.key(*index));
        let mut lookups: FuturesUnordered<_> = wanted
            .missing()
            .into_iter()
            .filter(|index| disk.is_asked() && indexed(index))
            .map(|index| self.pages.get(&wanted.key(index)).map(move |found| (index, found)))
            .collect();
        let deadline = Instant::now() + disk.patience;
        while !lookups.is_empty() {
            let answer = tokio::time::timeout_at(deadline, lookups.next());
            // The timer is coarser than the clock, and would let a late disk finish.
            let answer = if Instant::now() < deadline { answer.await.ok() } else { None };
            let Some(answer) = answer else {
                self.metrics.disk_late.add(lookups.len());
                disk.rest();
                return;
            };
            let Some((index, found)) = answer else { return };
            let key = wanted.key(index);
            match found {
                Ok(Some(entry)) => {
                    let length = page_bytes(wanted.block.length, index);
                    if let Some(page) = entry.value().content_of(key, length) {
                        wanted.put(index, page);
                        self.metrics.disk_hits.add(1);
                    } else {
                        self.metrics.corrupt.add(1);
                        warn!(block = %key.block, index, "a page of the disk cache was damaged");
                        self.pages.remove(&key);
                    }
                }
                // The index named it: it was damaged, unless it left just now.
                Ok(None) => self.metrics.corrupt.add(1),
                Err(error) => {
                    self.metrics.disk_errors.add(1);
                    warn!(%error, "the disk cache failed, and is left alone for a while");
                    disk.rest();
                    return;
                }
            }
        }
    }

    /// Gets what is still missing from the block store, or from those who get it already.
    async fn fetch_missing(&self, wanted: &mut Wanted) -> Result<(), BlockError> {
        loop {
            let (mut leads, mut waiters) = (Vec::new(), Vec::new());
            for index in wanted.missing() {
                match self.flights.board(wanted.key(index), || self.known(wanted, index)) {
                    Boarding::Known(page) => {
                        wanted.put(index, page);
                        self.metrics.memory_hits.add(1);
                    }
                    Boarding::Lead(lead) => leads.push(lead),
                    Boarding::Wait(waiter) => waiters.push((index, waiter)),
                }
            }
            if leads.is_empty() && waiters.is_empty() {
                return Ok(());
            }
            // One's own come first: two who wait for each other have both fetched by then.
            self.fetch(wanted, leads).await?;
            let mut alone = Vec::new();
            for (index, waiter) in waiters {
                match waiter.wait().await {
                    Waited::Page(page) => {
                        wanted.put(index, page);
                        self.metrics.joined.add(1);
                    }
                    Waited::Failed => alone.push(index),
                    // Somebody has to take the lead: maybe this one, in the next round.
                    Waited::Left => {}
                }
            }
            for run in runs(wanted, &alone) {
                for (index, page) in self.fetch_run(wanted.block, run).await? {
                    wanted.put(index, page);
                }
            }
        }
    }

    /// Fetches the pages of one's own leads, runs of neighbours at the same time.
    async fn fetch(&self, wanted: &mut Wanted, leads: Vec<Lead>) -> Result<(), BlockError> {
        let indexes: Vec<u32> = leads.iter().map(|lead| lead.key.index).collect();
        let block = wanted.block;
        let fetches: Vec<_> =
            runs(wanted, &indexes).into_iter().map(|run| self.fetch_run(block, run)).collect();
        let mut failed = None;
        for fetched in futures::future::join_all(fetches).await {
            match fetched {
                Ok(pages) => pages.into_iter().for_each(|(index, page)| wanted.put(index, page)),
                Err(error) => failed = Some(error),
            }
        }
        for lead in leads {
            let at = lead.key.index.saturating_sub(wanted.first) as usize;
            match wanted.found.get(at).cloned().flatten() {
                Some(page) => lead.land(page),
                None => lead.fail(),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Fetches neighbouring pages, and takes them into memory.
    async fn fetch_run(
        &self,
        block: BlockRef,
        run: Range<u32>,
    ) -> Result<Vec<(u32, Bytes)>, BlockError> {
        let opened = match self.get(block, run.clone()).await {
            Err(error)
                if matches!(error.kind(), BlockErrorKind::Corrupt | BlockErrorKind::NotFound) =>
            {
                self.metrics.second_reads.add(1);
                warn!(block = %block.id, %error, "a block is read once more");
                self.get(block, run.clone()).await?
            }
            first => first?,
        };
        self.metrics.misses.add(opened.len());
        // What arrives for somebody meanwhile has several readers.
        let scan = run.end - run.start >= SCAN_PAGES_MIN && !self.claims.is_taken(block.id);
        let admit = |(index, sub_block): (u32, SubBlock)| {
            let key = PageKey { block: block.id, index };
            (index, self.admit(key, sub_block, scan))
        };
        Ok((run.start..).zip(opened).map(admit).collect())
    }

    async fn get(&self, block: BlockRef, run: Range<u32>) -> Result<Vec<SubBlock>, BlockError> {
        let content = sealed::content_of(block.length, run.clone());
        let span = sealed::span(block.length, content);
        let bytes = get_known(&self.blocks, block, span.bytes).await?;
        self.metrics.fetched_bytes.add(bytes.len());
        sealed::open_sub_blocks(block, run, bytes)
    }

    /// Takes a page into memory, if there is room for it or it is worth somebody else's.
    fn admit(&self, key: PageKey, sub_block: SubBlock, scan: bool) -> Bytes {
        let Some(written) = self.worth(key, scan) else { return sub_block.content };
        let page = Page::copied(key, sub_block.checksum, &[sub_block.content]);
        let content = page.content().clone();
        self.keep(page, written);
        self.metrics.admitted.add(1);
        content
    }

    /// Whether a page that was fetched is to be kept in memory, and if so, whether it is to be
    /// written to the disk when it leaves.
    fn worth(&self, key: PageKey, scan: bool) -> Option<bool> {
        let memory = self.pages.memory();
        // What is in memory already was fetched along with its neighbours.
        if memory.contains(&key) {
            return None;
        }
        let seen = self.seen.note(memory.hash(&key));
        let disk_has_room = self.disk.as_ref().is_some_and(Disk::has_room);
        let roomy = memory.usage() + MARGIN_BYTES <= memory.capacity().min(SCAN_MEMORY_BYTES);
        let kept = !scan || roomy || seen || disk_has_room;
        kept.then_some(self.disk.is_some() && (disk_has_room || seen))
    }

    fn keep(&self, page: Page, written: bool) {
        drop(self.pages.insert_with_properties(page.key(), page, disk::properties(written)));
    }
}

/// Ascending indexes as ranges of neighbours. A single page between two is fetched again with
/// them rather than making two requests of one, if it was found already.
fn runs(wanted: &Wanted, indexes: &[u32]) -> Vec<Range<u32>> {
    let found = |index: u32| wanted.pages().any(|(page, found)| page == index && found);
    let mut runs: Vec<Range<u32>> = Vec::new();
    for &index in indexes {
        match runs.last_mut() {
            Some(run) if run.end == index || (run.end + 1 == index && found(run.end)) => {
                run.end = index + 1;
            }
            _ => runs.push(index..index + 1),
        }
    }
    runs
}
