//! One read: pages from memory, then from the disk, then from the block store.
//!
//! For example, of ten pages six are in memory and two on the disk; the other two are fetched.

use std::ops::Range;

use async_trait::async_trait;
use block::{
    Arrival, BlockError, BlockErrorKind, BlockId, BlockReader, BlockRef, BlockStore,
    SUB_BLOCK_BYTES, SubBlock, VerifiedSubBlock, get_with_recovery, sealed,
};
use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::Instant;
use tracing::warn;

use crate::disk::{self, Disk};
use crate::fetches::{FetchTurn, Lead, Waited};
use crate::page::{Page, PageKey, page_bytes};
use crate::{Cache, SCAN_MEMORY_BYTES, SCAN_PAGES_MIN};

/// A cache with less free memory than this counts as full, because its shards do not fill up
/// evenly.
const MARGIN_BYTES: usize = 1 << 20;

/// The pages (sub-blocks of 64 KiB) of one read, with those that were found.
struct Wanted {
    block: BlockRef,
    range: Range<u32>,
    /// The index of the first page in its block.
    first: u32,
    found: Vec<Option<Bytes>>,
}

impl Wanted {
    /// Creates the pages of a range. Returns `None` if the range is empty or ends behind the block.
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

    /// Returns the index of every page of the read in its block, each with true if the page was
    /// found.
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

    /// Returns the content of the pages, cut to the requested range; `None` if a page is missing.
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
            // An empty range has no pieces, and a range outside of its block is an error.
            return sealed::open(block, range, Bytes::new());
        };
        for index in wanted.missing() {
            if let Some(page) = self.get_from_memory(&wanted, index) {
                wanted.put(index, page);
                self.meters.memory_hits.add(1);
            }
        }
        // Memory comes first, because a lookup there costs no system call.
        if let Some(disk) = &self.disk {
            self.read_from_disk(disk, &mut wanted).await;
        }
        self.fetch_missing(&mut wanted).await?;
        wanted.into_pieces().ok_or_else(|| {
            let doing = format!("reading bytes {range:?} of block {}", block.id);
            BlockError::with_cause(BlockErrorKind::Corrupt, doing, "a page is missing")
        })
    }

    fn in_memory(&self, block: BlockRef, range: Range<u32>) -> Option<Vec<Bytes>> {
        let mut wanted = Wanted::new(block, range)?;
        for at in 0..wanted.found.len() {
            let index = wanted.first + u32::try_from(at).ok()?;
            let page = self.get_from_memory(&wanted, index)?;
            wanted.put(index, page);
        }
        self.meters.memory_hits.add(wanted.found.len() as u64);
        wanted.into_pieces()
    }

    fn remember(&self, block: BlockId, sub_block: &VerifiedSubBlock) {
        if self.admit_opened(block, sub_block, false) {
            self.meters.remembered.add(1);
        }
    }

    /// A page that is only partly in the range may have bytes of another owner, so it is kept.
    fn forget(&self, block: BlockId, range: Range<u32>) {
        let whole = range.start.div_ceil(SUB_BLOCK_BYTES)..range.end / SUB_BLOCK_BYTES;
        for index in whole {
            if self.pages.memory().remove(&PageKey { block, index }).is_some() {
                self.meters.forgotten.add(1);
            }
        }
    }

    fn arrival(&self, block: BlockRef, range: Range<u32>) -> Option<Arrival> {
        if !Arrival::is_worthwhile(block, &range) || !self.blocks.streams() {
            return None;
        }
        // Only a cold range is streamed: cached pages must not be requested again.
        let cold = self.cold(block, range);
        if !Arrival::is_worthwhile(block, &cold) {
            return None;
        }
        // Without the claim the caller reads in runs, which it shares with others.
        let claim = self.claims.take(block.id)?;
        Some(Arrival::new(block, cold, Some(Box::new(claim))))
    }

    async fn open(&self, arrival: &mut Arrival) -> Result<(), BlockError> {
        let before = arrival.second_reads();
        let opened = arrival.open(&self.blocks).await;
        self.meters.second_reads.add(u64::from(arrival.second_reads() - before));
        opened
    }

    async fn advance(&self, arrival: &mut Arrival) -> Result<bool, BlockError> {
        let (before, block) = (arrival.second_reads(), arrival.block_id());
        let scan = arrival.sub_blocks() >= SCAN_PAGES_MIN;
        let admit_opened = |opened: &VerifiedSubBlock| {
            let length: usize = opened.pieces.iter().map(Bytes::len).sum();
            self.meters.misses.add(1);
            self.meters.fetched_bytes.add((length + sealed::CHECKSUM_BYTES as usize) as u64);
            if self.admit_opened(block, opened, scan) {
                self.meters.admitted.add(1);
            }
        };
        let advanced = arrival.advance(&self.blocks, admit_opened).await;
        self.meters.second_reads.add(u64::from(arrival.second_reads() - before));
        advanced
    }
}

impl<B: BlockStore> Cache<B> {
    /// Returns the first part of a range of which no page is cached or being fetched.
    fn cold(&self, block: BlockRef, range: Range<u32>) -> Range<u32> {
        let Some(wanted) = Wanted::new(block, range.clone()) else { return range };
        let on_disk = |key: &PageKey| {
            let asked = self.disk.as_ref().is_some_and(Disk::is_usable);
            asked && self.pages.storage().may_contains(key)
        };
        let known = |index: &u32| {
            let key = wanted.key(*index);
            self.pages.memory().contains(&key) || self.fetches.is_fetching(key) || on_disk(&key)
        };
        let end = wanted.missing().into_iter().find(known);
        let end = end.map_or(range.end, |index| index.saturating_mul(SUB_BLOCK_BYTES));
        range.start..end.min(range.end).max(range.start)
    }

    /// Keeps a page that was passed on as it arrived in memory, if it is worth its place. `scan` is
    /// true if it belongs to a long read. Returns true if it was kept.
    fn admit_opened(&self, block: BlockId, opened: &VerifiedSubBlock, scan: bool) -> bool {
        let key = PageKey { block, index: opened.index };
        let Some(written) = self.admission(key, scan) else { return false };
        self.keep(Page::copied(key, opened.checksum, &opened.pieces), written);
        true
    }

    /// Returns the content of a page of the read if it is in memory; `None` otherwise.
    fn get_from_memory(&self, wanted: &Wanted, index: u32) -> Option<Bytes> {
        let key = wanted.key(index);
        let entry = self.pages.memory().get(&key)?;
        entry.value().content_of(key, page_bytes(wanted.block.length, index))
    }

    /// Looks up the missing pages of a read on the disk, until the timeout of the disk. Those that
    /// are found are added to `wanted`.
    async fn read_from_disk(&self, disk: &Disk, wanted: &mut Wanted) {
        let indexed = |index: &u32| self.pages.storage().may_contains(&wanted.key(*index));
        let mut lookups: FuturesUnordered<_> = wanted
            .missing()
            .into_iter()
            // The index is in memory, so pages that the disk lacks cost no read.
            .filter(|index| disk.is_usable() && indexed(index))
            .map(|index| self.pages.get(&wanted.key(index)).map(move |found| (index, found)))
            .collect();
        let deadline = Instant::now() + disk.timeout;
        while !lookups.is_empty() {
            let answer = tokio::time::timeout_at(deadline, lookups.next());
            // The timer is coarser than the clock, so a late disk could still finish in time by the
            // timer alone.
            let answer = if Instant::now() < deadline { answer.await.ok() } else { None };
            let Some(answer) = answer else {
                self.meters.disk_late.add(lookups.len() as u64);
                disk.pause();
                return;
            };
            let Some((index, found)) = answer else { return };
            let key = wanted.key(index);
            match found {
                Ok(Some(entry)) => {
                    let length = page_bytes(wanted.block.length, index);
                    if let Some(page) = entry.value().content_of(key, length) {
                        wanted.put(index, page);
                        self.meters.disk_hits.add(1);
                    } else {
                        self.meters.corrupt.add(1);
                        warn!(block = %key.block, index, "a page of the disk cache is damaged");
                        // Removed from the disk, too, so that the next read fetches it without a
                        // lookup.
                        self.pages.remove(&key);
                    }
                }
                // The index lists it, so it was damaged, unless it was evicted at this moment.
                Ok(None) => self.meters.corrupt.add(1),
                Err(error) => {
                    self.meters.disk_errors.add(1);
                    warn!(%error, "the disk cache failed; not using it for some seconds");
                    disk.pause();
                    return;
                }
            }
        }
    }

    /// Fetches the missing pages of a read from the block store, or waits for other readers that
    /// fetch them.
    async fn fetch_missing(&self, wanted: &mut Wanted) -> Result<(), BlockError> {
        loop {
            let (mut leads, mut waiters) = (Vec::new(), Vec::new());
            for index in wanted.missing() {
                match self.fetches.join(wanted.key(index), || self.get_from_memory(wanted, index)) {
                    FetchTurn::Known(page) => {
                        wanted.put(index, page);
                        self.meters.memory_hits.add(1);
                    }
                    FetchTurn::Lead(lead) => leads.push(lead),
                    FetchTurn::Wait(waiter) => waiters.push((index, waiter)),
                }
            }
            if leads.is_empty() && waiters.is_empty() {
                return Ok(());
            }
            // The own pages are fetched before waiting. Otherwise two readers that each lead a page
            // of the other would wait for each other forever.
            self.fetch(wanted, leads).await?;
            let mut alone = Vec::new();
            for (index, waiter) in waiters {
                match waiter.wait().await {
                    Waited::Page(page) => {
                        wanted.put(index, page);
                        self.meters.joined.add(1);
                    }
                    Waited::Failed => alone.push(index),
                    // Some waiter has to become the lead. The next iteration decides which one.
                    Waited::Abandoned => {}
                }
            }
            for run in runs(wanted, &alone) {
                for (index, page) in self.fetch_run(wanted.block, run).await? {
                    wanted.put(index, page);
                }
            }
        }
    }

    /// Fetches the pages for which the caller is the lead (the reader that fetches a page for all),
    /// adjacent pages with one request, and all requests at the same time.
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
        // The leads end only now, when the pages that the cache keeps are in memory.
        for lead in leads {
            let at = lead.key.index.saturating_sub(wanted.first) as usize;
            match wanted.found.get(at).cloned().flatten() {
                Some(page) => lead.complete(page),
                None => lead.fail(),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Fetches the adjacent pages `run` of a block with one request, and keeps them in memory if
    /// they are worth their place. Returns each with its index.
    async fn fetch_run(
        &self,
        block: BlockRef,
        run: Range<u32>,
    ) -> Result<Vec<(u32, Bytes)>, BlockError> {
        let opened = match self.get(block, run.clone()).await {
            Err(error)
                if matches!(error.kind(), BlockErrorKind::Corrupt | BlockErrorKind::NotFound) =>
            // A proxy or cache on the way may have returned wrong bytes, so a second request may
            // succeed.
            {
                self.meters.second_reads.add(1);
                warn!(block = %block.id, %error, "a missing or damaged block is read again");
                self.get(block, run.clone()).await?
            }
            first => first?,
        };
        // Counted after verification, so that a damaged response counts once.
        self.meters.misses.add(opened.len() as u64);
        // A block that is also being streamed has several readers, so its pages are worth keeping.
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
        let bytes = get_with_recovery(&self.blocks, block, span.bytes).await?;
        self.meters.fetched_bytes.add(bytes.len() as u64);
        sealed::open_sub_blocks(block, run, bytes)
    }

    /// Keeps a fetched page in memory if there is free memory or it is worth the place of another
    /// page. `scan` is true if it belongs to a long read. Returns its content in any case.
    fn admit(&self, key: PageKey, sub_block: SubBlock, scan: bool) -> Bytes {
        let Some(written) = self.admission(key, scan) else { return sub_block.content };
        let page = Page::copied(key, sub_block.checksum, &[sub_block.content]);
        let content = page.content().clone();
        self.keep(page, written);
        self.meters.admitted.add(1);
        content
    }

    /// Decides about a fetched page. Returns `None` if it is not to be kept in memory; otherwise
    /// true if it is to be written to the disk when it leaves memory.
    fn admission(&self, key: PageKey, scan: bool) -> Option<bool> {
        let memory = self.pages.memory();
        // Such a page was fetched again because it is between two missing ones.
        if memory.contains(&key) {
            return None;
        }
        let seen = self.recent.note(memory.hash(&key));
        // The disk has content in the clear, so a page of an encrypted block stays in memory.
        let disk = self.disk.as_ref().filter(|_| !key.block.is_secret());
        let disk_has_space = disk.is_some_and(Disk::has_free_space);
        let memory_has_space =
            memory.usage() + MARGIN_BYTES <= memory.capacity().min(SCAN_MEMORY_BYTES);
        // A page of a scan must not displace others unless it has been requested before.
        let kept = !scan || memory_has_space || seen || disk_has_space;
        kept.then_some(disk.is_some() && (disk_has_space || seen))
    }

    fn keep(&self, page: Page, written: bool) {
        drop(self.pages.insert_with_properties(page.key(), page, disk::properties(written)));
    }
}

/// Groups ascending indexes into ranges of adjacent pages. A single page between two missing ones
/// that was found already is fetched again with them, because one request costs less than two.
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
