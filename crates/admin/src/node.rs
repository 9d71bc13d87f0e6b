//! What is known of a node, and where its content stands.
//!
//! All is read from the metadata store; no block is asked for. What records say of a block is what it
//! has in it: a few bytes of headers and checksums are stored besides.

use std::collections::BTreeMap;

use namespace::{FindName, FindNode, FoundNode, FsError, Lookup, NodeName, Path};
use record::key::{self, space};
use record::{BlockId, Content, Hold, Ino, InodeBody, MapPage, Nonce, SessionRecord, Slice};
use session::{entries, session_in_key, value};
use store::{Read, ReadResult};

use crate::drive::corrupt;
use crate::{Admin, AdminError};

/// Blocks of a file of which [`Admin::node`] tells one by one, those with the first bytes.
pub const BLOCKS_TOLD_MAX: usize = 256;

/// Pages of a content map that it reads: the slices behind them are not counted.
pub const PAGES_READ_MAX: usize = 1_024;

/// Holders that it tells.
const HOLDERS_TOLD_MAX: u32 = 256;

/// Questions that one read asks.
const QUESTIONS_MAX: usize = 256;

/// A node, and where its content stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node. Its inode says what it is, how large, and which entity tag it has.
    pub node: FoundNode,
    /// Where its content stands; nothing for what is no file.
    pub place: Option<ContentPlace>,
    /// Bytes that are stored of it in blocks, each of a block once.
    pub stored_bytes: u64,
    /// Runs of bytes in blocks that its content is made of.
    pub slices: u64,
    /// How many blocks they lie in.
    pub blocks_count: u64,
    /// The first of them, [`BLOCKS_TOLD_MAX`] at most.
    pub blocks: Vec<BlockUse>,
    /// Whether the content map is so large that not all of it was looked at.
    pub partial: bool,
    /// Sessions that keep it from being deleted, because somebody has it open or reads it.
    pub holders: Vec<Holder>,
}

/// Where a file's content stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentPlace {
    /// In the file's record, for good.
    Record,
    /// In the file's record, until it is put into a block.
    Staged,
    /// In blocks, which the file's record lists.
    Blocks,
    /// In blocks, which so many pages of a content map list.
    Pages(usize),
}

/// A block that bytes of a file lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockUse {
    /// The block.
    pub block: BlockId,
    /// Bytes that lie in it, of whatever files.
    pub block_bytes: u64,
    /// Bytes of this file in it.
    pub bytes: u64,
    /// Of a pack, the bytes of it that files have.
    pub live_bytes: Option<u64>,
}

/// A session that holds a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The session.
    pub session: Nonce,
    /// Where it runs, for people; nothing if it has ended.
    pub place: Option<String>,
}

impl Admin {
    /// What is known of a node.
    ///
    /// # Errors
    /// [`AdminError::NoSuchNode`], and if the store cannot be read.
    pub async fn node(&self, ino: Ino) -> Result<NodeReport, AdminError> {
        let node = self.run(&FindNode { ino }, None).await.map_err(missing)?;
        let (mut place, mut slices, mut partial) = (None, Vec::new(), false);
        if let InodeBody::File(file) = &node.inode.body {
            place = Some(match &file.content {
                content @ Content::Inline(_) if content.is_staged_inline() => ContentPlace::Staged,
                Content::Inline(_) => ContentPlace::Record,
                Content::Slices(_) => ContentPlace::Blocks,
                Content::Pages(pages) => ContentPlace::Pages(pages.len()),
            });
            match &file.content {
                Content::Inline(_) => {}
                Content::Slices(listed) => slices.clone_from(listed),
                Content::Pages(pages) => {
                    partial = pages.len() > PAGES_READ_MAX;
                    let pages = pages.iter().take(PAGES_READ_MAX).map(|page| page.page);
                    slices = self.map_pages(ino, &pages.collect::<Vec<_>>()).await?;
                }
            }
        }
        let all = uses(&slices);
        let mut blocks: Vec<BlockUse> = all.iter().take(BLOCKS_TOLD_MAX).copied().collect();
        self.tell_live(&mut blocks).await?;
        let holders = self.holders(ino).await?;
        Ok(NodeReport {
            place,
            stored_bytes: all.iter().map(|used| used.bytes).sum(),
            slices: slices.len() as u64,
            blocks_count: all.len() as u64,
            blocks,
            partial,
            holders,
            node,
        })
    }

    /// Finds a node by `BUCKET/KEY`: the object of that key, or what a mount shows there.
    ///
    /// # Errors
    /// [`AdminError::NoSuchNode`], and if the store cannot be read.
    pub async fn find_node(&self, path: &str) -> Result<Ino, AdminError> {
        if let Some((bucket, key)) = path.split_once('/') {
            let object = Path::new(bucket.as_bytes(), key.as_bytes());
            match self.run(&Lookup { path: &object, version: None }, None).await {
                Err(AdminError::Fs(FsError::NoSuchKey) | AdminError::NoSuchBucket) => {}
                found => return Ok(found?.ino),
            }
        }
        let mut at = Ino::ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let name = NodeName { directory: at, name: name.as_bytes().to_vec() };
            at = self.run(&FindName { name: &name }, None).await.map_err(missing)?.ino;
        }
        Ok(at)
    }

    async fn map_pages(&self, ino: Ino, pages: &[u32]) -> Result<Vec<Slice>, AdminError> {
        let mut slices = Vec::new();
        for pages in pages.chunks(QUESTIONS_MAX) {
            let keys: Vec<_> = pages.iter().map(|page| key::map_page(ino, *page)).collect();
            let reads = keys.iter().map(|key| Read::Record { key: key.clone(), follow: None });
            let found = self.read(&reads.collect::<Vec<_>>()).await?;
            for (key, found) in keys.iter().zip(&found) {
                // Somebody has written to the file meanwhile.
                let Some(page) = value(Some(found)) else { return Err(AdminError::Contended) };
                slices.extend(MapPage::decode(key, &page).map_err(|error| corrupt(key, &error))?.0);
            }
        }
        Ok(slices)
    }

    /// Tells of packs how much of them is alive.
    async fn tell_live(&self, blocks: &mut [BlockUse]) -> Result<(), AdminError> {
        let mut packs: Vec<_> = blocks.iter_mut().filter(|used| used.block.is_pack()).collect();
        for packs in packs.chunks_mut(QUESTIONS_MAX) {
            let reads = packs.iter().map(|used| Read::Counter(key::live(used.block)));
            let found = self.read(&reads.collect::<Vec<_>>()).await?;
            for (used, found) in packs.iter_mut().zip(found) {
                let ReadResult::Counter(live) = found else { continue };
                used.live_bytes = Some(u64::try_from(live).unwrap_or(0));
            }
        }
        Ok(())
    }

    async fn holders(&self, ino: Ino) -> Result<Vec<Holder>, AdminError> {
        let (start, end) = key::partition(space::HOLD, ino.0);
        let limit = HOLDERS_TOLD_MAX.min(self.store.limits().range_records);
        let found = self.read(&[Read::Range { start, end, limit, follow: None }]).await?;
        let mut sessions = Vec::new();
        for entry in entries(found.into_iter().next()) {
            Hold::decode(&entry.key, &entry.value).map_err(|error| corrupt(&entry.key, &error))?;
            sessions.extend(session_in_key(&entry.key));
        }
        let keys: Vec<_> = sessions.iter().map(|session| key::session(*session)).collect();
        let reads = keys.iter().map(|key| Read::Record { key: key.clone(), follow: None });
        let found = self.read(&reads.collect::<Vec<_>>()).await?;
        let mut holders = Vec::new();
        for ((session, key), found) in sessions.into_iter().zip(&keys).zip(&found) {
            let record = value(Some(found)).map(|record| SessionRecord::decode(key, &record));
            let record = record.transpose().map_err(|error| corrupt(key, &error))?;
            holders.push(Holder { session, place: record.map(|record| record.place) });
        }
        Ok(holders)
    }
}

/// The blocks of slices, in the order of the first byte of each.
fn uses(slices: &[Slice]) -> Vec<BlockUse> {
    let (mut places, mut all) = (BTreeMap::new(), Vec::<BlockUse>::new());
    for slice in slices {
        let place = *places.entry(slice.block).or_insert_with(|| {
            let (block, block_bytes) = (slice.block, u64::from(slice.block_length));
            all.push(BlockUse { block, block_bytes, bytes: 0, live_bytes: None });
            all.len() - 1
        });
        if let Some(used) = all.get_mut(place) {
            used.bytes += u64::from(slice.length);
        }
    }
    all
}

/// Nothing of that name or number is there.
fn missing(error: AdminError) -> AdminError {
    match error {
        AdminError::Fs(FsError::NoSuchKey | FsError::Stale) | AdminError::NoSuchBucket => {
            AdminError::NoSuchNode
        }
        error => error,
    }
}
