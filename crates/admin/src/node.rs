//! The report about a node, a file, directory, link or special file: its inode, the blocks of its
//! content, and the sessions that hold it open.
//!
//! All facts come from the metadata store; no block is read. The sizes of blocks are those of their
//! content. A stored block is a few bytes larger, because it also has a header and checksums. For
//! example, the report shows that a file of 1 MiB after many overwrites has 40 slices in 7 blocks.

use std::collections::BTreeMap;

use namespace::{FindName, FindNode, FoundNode, FsError, Lookup, NodeName, Path};
use record::key::{self, space};
use record::{BlockId, Content, Hold, Ino, InodeBody, MapPage, Nonce, SessionRecord, Slice};
use session::{entries, session_in_key, value};
use store::{Read, ReadResult};

use crate::change::corrupt;
use crate::{Admin, AdminError};

/// The largest number of blocks that a report lists: those with the first bytes of the file.
pub const BLOCKS_LISTED_MAX: usize = 256;

/// The largest number of content-map pages that a report reads. Slices in later pages are not
/// counted.
pub const PAGES_READ_MAX: usize = 1_024;

/// The largest number of sessions that a report lists.
const HOLDERS_LISTED_MAX: u32 = 256;

/// The largest number of records or counters per read.
const READS_MAX: usize = 256;

/// The report about a node: its inode, the storage of its content, and the sessions that hold it
/// open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node. Its inode has the kind, the size and the entity tag.
    pub node: FoundNode,
    /// The storage of the content. `None` if the node is not a file.
    pub place: Option<ContentPlace>,
    /// The bytes of the file that are in blocks, and not in its record or in holes.
    pub stored_bytes: u64,
    /// The number of slices of the content. A slice is a run of bytes of one block at a position of
    /// the file.
    pub slices: u64,
    /// The number of blocks with bytes of the file.
    pub blocks_count: u64,
    /// The first blocks, at most [`BLOCKS_LISTED_MAX`].
    pub blocks: Vec<BlockUse>,
    /// True if the content map, the list of slices of the file, has more than [`PAGES_READ_MAX`]
    /// pages. The figures then leave out the rest.
    pub partial: bool,
    /// The sessions that have the node open or read it, and so delay its deletion.
    pub holders: Vec<Holder>,
}

/// The storage of the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentPlace {
    /// In the record of the file, permanently.
    Record,
    /// In the record of the file, until the relocator, a background task of a gateway, moves it
    /// into a block.
    Staged,
    /// In blocks, which the record of the file lists.
    Blocks,
    /// In blocks, which this number of content-map pages lists. A page is a record with a part of
    /// the file's list of slices.
    Pages(usize),
}

/// A block with bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockUse {
    /// The id of the block.
    pub block: BlockId,
    /// The size in bytes of the content of the block, of all files together.
    pub block_bytes: u64,
    /// The bytes of this file in the block.
    pub bytes: u64,
    /// The bytes of the block that files still refer to. `None` if the block is not a pack, that
    /// is, a block that was written with the content of several files.
    pub live_bytes: Option<u64>,
}

/// A session that has a node open or reads it, and so delays the deletion of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The nonce of the session, that is, its unique name.
    pub session: Nonce,
    /// The host and process of the session. `None` if the session has ended.
    pub place: Option<String>,
}

impl Admin {
    /// Returns the report about a node.
    ///
    /// # Errors
    /// [`AdminError::NoSuchNode`], [`AdminError::Contended`] if another process writes to the file
    /// meanwhile, and if the store cannot be read.
    pub async fn node(&self, ino: Ino) -> Result<NodeReport, AdminError> {
        let node = self.look(&FindNode { ino }).await.map_err(missing)?;
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
        // A block counts once, also if the file has several slices of it.
        let all = uses(&slices);
        let mut blocks: Vec<BlockUse> = all.iter().take(BLOCKS_LISTED_MAX).copied().collect();
        self.add_live_bytes(&mut blocks).await?;
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

    /// Returns the inode number of `BUCKET/KEY`: of the object with this key, or of the node that a
    /// mount shows at this path.
    ///
    /// # Errors
    /// [`AdminError::NoSuchNode`], and if the store cannot be read.
    pub async fn find_node(&self, path: &str) -> Result<Ino, AdminError> {
        if let Some((bucket, key)) = path.split_once('/') {
            let object = Path::new(bucket.as_bytes(), key.as_bytes());
            match self.look(&Lookup { path: &object, version: None }).await {
                Err(AdminError::Fs(FsError::NoSuchKey) | AdminError::NoSuchBucket) => {}
                found => return Ok(found?.ino),
            }
        }
        // No object has this key: the path may be a directory, or another node that only a mount
        // shows.
        let mut at = Ino::ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let name = NodeName { directory: at, name: name.as_bytes().to_vec() };
            at = self.look(&FindName { name: &name }).await.map_err(missing)?.ino;
        }
        Ok(at)
    }

    async fn map_pages(&self, ino: Ino, pages: &[u32]) -> Result<Vec<Slice>, AdminError> {
        let mut slices = Vec::new();
        for pages in pages.chunks(READS_MAX) {
            let keys: Vec<_> = pages.iter().map(|page| key::map_page(ino, *page)).collect();
            let reads = keys.iter().map(|key| Read::Record { key: key.clone(), follow: None });
            let found = self.read(&reads.collect::<Vec<_>>()).await?;
            for (key, found) in keys.iter().zip(&found) {
                // The page is missing because another process has written to the file meanwhile.
                let Some(page) = value(Some(found)) else { return Err(AdminError::Contended) };
                slices.extend(MapPage::decode(key, &page).map_err(|error| corrupt(key, &error))?.0);
            }
        }
        Ok(slices)
    }

    /// Reads the live bytes of the packs among the blocks, and sets `live_bytes` of each. A pack is
    /// a block with content of several files.
    async fn add_live_bytes(&self, blocks: &mut [BlockUse]) -> Result<(), AdminError> {
        let mut packs: Vec<_> = blocks.iter_mut().filter(|used| used.block.is_pack()).collect();
        for packs in packs.chunks_mut(READS_MAX) {
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
        let limit = HOLDERS_LISTED_MAX.min(self.store.limits().range_records);
        let found = self.read(&[Read::Range { start, end, limit, follow: None }]).await?;
        let mut sessions = Vec::new();
        for entry in entries(found.into_iter().next()) {
            Hold::decode(&entry.key, &entry.value).map_err(|error| corrupt(&entry.key, &error))?;
            sessions.extend(session_in_key(&entry.key));
        }
        // A hold has only the nonce of the session. Its host is in the record of the session.
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

/// Returns the blocks of slices in the order of their first bytes in the file.
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

/// Maps the errors of a lookup without result to `NoSuchNode`.
fn missing(error: AdminError) -> AdminError {
    match error {
        AdminError::Fs(FsError::NoSuchKey | FsError::Stale) | AdminError::NoSuchBucket => {
            AdminError::NoSuchNode
        }
        error => error,
    }
}
