//! Paths on a mount: the lookups that a kernel does to turn a program's path into an inode number.

use files::{CreateOptions, NodeStat};
use record::Ino;
use rustix::io::Errno;

use super::World;
use super::model::{BUCKETS, Name};

/// Splits a path below a bucket into its directory and its last name.
pub(crate) fn cut(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

pub(crate) fn by() -> CreateOptions {
    CreateOptions { mode: 0o666, umask: 0o022, uid: 1_000, gid: 1_001 }
}

impl World {
    /// Looks up a directory below a bucket.
    pub(crate) async fn walk(
        &self,
        mount: usize,
        bucket: usize,
        directory: &str,
    ) -> Result<Ino, Errno> {
        let files = &self.mounts[mount].files;
        let mut at = files.look_up(Ino::ROOT, BUCKETS[bucket].as_bytes()).await?.ino;
        for name in directory.split('/').filter(|name| !name.is_empty()) {
            at = files.look_up(at, name.as_bytes()).await?.ino;
        }
        Ok(at)
    }

    /// Creates the missing directories, as `mkdir -p` does.
    pub(crate) async fn walk_making(&self, mount: usize, bucket: usize, directory: &str) -> Ino {
        let files = &self.mounts[mount].files;
        let mut at = self.walk(mount, bucket, "").await.expect("a bucket");
        for name in directory.split('/').filter(|name| !name.is_empty()) {
            at = match files.look_up(at, name.as_bytes()).await {
                Ok(found) => found.ino,
                Err(Errno::NOENT) => {
                    let by = CreateOptions { mode: 0o777, ..by() };
                    let made = files.make_directory(at, name.as_bytes(), by).await;
                    made.expect("a directory").ino
                }
                Err(error) => panic!("{directory}: {error}"),
            };
        }
        at
    }

    pub(crate) async fn look_up(&self, mount: usize, name: Name) -> Result<NodeStat, Errno> {
        let (directory, last) = cut(name.1);
        let directory = self.walk(mount, name.0, directory).await?;
        self.mounts[mount].files.look_up(directory, last.as_bytes()).await
    }

    /// Removes the directories of a bucket without objects. After moves there can be directories
    /// deeper than those of the keys.
    pub(crate) async fn remove_directories(&self, bucket: usize) {
        let files = &self.mounts[0].files;
        let root = self.walk(0, bucket, "").await.expect("a bucket");
        let (mut below, mut at) = (Vec::new(), Some(root));
        let mut looked = 0;
        while let Some(directory) = at {
            let handle = files.open_directory(directory).await.expect("a directory");
            let told = files.read_directory(handle, 0, true, |entry| {
                if entry.name != b"." && entry.name != b".." {
                    below.push((directory, entry.name.clone(), entry.ino));
                }
                true
            });
            told.await.expect("its names");
            files.release_directory(handle);
            at = below.get(looked).map(|(_, _, ino)| *ino);
            looked += 1;
        }
        for (above, name, _) in below.iter().rev() {
            files.remove_directory(*above, name).await.expect("nothing is in it");
        }
    }
}
