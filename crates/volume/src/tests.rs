//! The service without a view: operations run against stores that fail.

mod checking;
mod commit;
mod compacting;
mod contention;
mod customer_keys;
mod destaging;
mod ending;
mod feeding;
mod forking;
mod gathering;
mod hiding;
mod holds;
mod inodes;
mod late;
mod leaving;
mod looking;
mod maintained;
mod marks;
pub(crate) mod packs;
mod ranges;
pub(crate) mod reaping;
mod repacking;
mod rollback;
mod sessions;
mod skipping;
mod sole;
mod sweeping;
mod throttling;
mod trash;
mod turns;
mod version_moves;
mod version_pages;
mod versions;

use std::sync::Arc;

use block::{BlockStore, MemoryBlocks};
use bytes::Bytes;
use content::{ContentWriter, StagedContent};
use namespace::{FoundObject, Lookup, MakeBucket, Path, Publish, Published, WriteCondition};
use record::{Attributes, Bucket, Content, File, Ino, Inode, InodeBody, Nonce, Tag, Timestamp};
use store::MetaStore;

use crate::{Volume, VolumeError, VolumeOptions};
pub(crate) use maintained::MaintainedVolume;

impl Volume {
    /// Replaces the tags of an object.
    pub(crate) async fn set_tags(
        &self,
        bucket: &str,
        key: &[u8],
        tags: Vec<(String, String)>,
    ) -> Result<(), VolumeError> {
        let change = crate::ObjectChange::Tags(&tags);
        self.change_object(bucket, key, None, None, change).await.map(drop)
    }
}

/// Opens a volume without background work.
pub(crate) async fn open(
    store: Arc<dyn MetaStore>,
    blocks: Arc<dyn BlockStore>,
) -> MaintainedVolume {
    let options = VolumeOptions { inline_bytes_max: 16, block_bytes: 65_536, ..Default::default() };
    MaintainedVolume::open_without_tasks(options, store, blocks).await.unwrap()
}

pub(crate) async fn make_bucket(volume: &Volume) -> Ino {
    let ino = volume.session.allocate_inodes(1).await.unwrap()[0];
    let settings = Bucket::default();
    let create = MakeBucket {
        name: b"b",
        ino,
        settings: &settings,
        configs: &[],
        owner: (0, 0),
        mode: 0o755,
        versioning: record::Versioning::Off,
    };
    volume.session.run(&create).await.unwrap();
    ino
}

fn file(size: u64, content: Content) -> Inode {
    let now = Timestamp::default();
    Inode {
        attributes: Attributes::new(0o644, 0, 0, now),
        bucket: Ino::ROOT,
        xattrs: Vec::new(),
        body: InodeBody::File(Box::new(File::new(size, Tag::Md5([7; 16]), content))),
    }
}

/// How long a file is.
fn size(inode: &Inode) -> u64 {
    match &inode.body {
        InodeBody::File(file) => file.size,
        body => panic!("no file: {body:?}"),
    }
}

async fn staged(volume: &Volume, bytes: usize) -> StagedContent {
    let mut writer = ContentWriter::new(&volume.writers, Some(bytes as u64));
    writer.write(Bytes::from(vec![5; bytes])).await.unwrap();
    writer.finish().await.unwrap()
}

/// Publishes an object of so many bytes.
async fn publish(volume: &Volume, key: &[u8], bytes: usize) -> Result<Published, VolumeError> {
    let staged = staged(volume, bytes).await;
    publish_staged(volume, key, staged, &WriteCondition::None).await
}

async fn publish_staged(
    volume: &Volume,
    key: &[u8],
    staged: StagedContent,
    condition: &WriteCondition,
) -> Result<Published, VolumeError> {
    let path = Path::new(b"b", key);
    let inos = volume.session.allocate_inodes(1 + path.directories.len()).await?;
    let inode = file(staged.size(), staged.content().clone());
    let operation = Publish {
        path: &path,
        ino: inos[0],
        fresh: &inos[1..],
        inode: &inode,
        condition,
        assumptions: &[],
        writes: &[],
    };
    volume.session.run_publishing(&operation, staged.into_blocks()).await
}

pub(crate) async fn lookup(volume: &Volume, key: &[u8]) -> Result<FoundObject, VolumeError> {
    volume.session.run(&Lookup { path: &Path::new(b"b", key), version: None }).await
}

/// Returns the number of blocks of all sessions.
async fn count_blocks(blocks: &MemoryBlocks) -> usize {
    let mut count = 0;
    for session in blocks.sessions().await.unwrap() {
        count += count_blocks_of(blocks, session).await;
    }
    count
}

async fn count_blocks_of(blocks: &MemoryBlocks, session: Nonce) -> usize {
    let (mut count, mut resume) = (0, None);
    loop {
        let page = blocks.list(session, resume).await.unwrap();
        count += page.blocks.len();
        resume = page.resume;
        if resume.is_none() {
            return count;
        }
    }
}
