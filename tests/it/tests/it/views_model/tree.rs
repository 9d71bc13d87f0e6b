//! Paths on a mount: what the kernel does between a program's path and a node's number.

use files::{MadeBy, NodeStat};
use record::Ino;
use rustix::io::Errno;

use super::World;
use super::model::{BUCKETS, DIRECTORIES, Name};

/// The directory of a path below a bucket, and the last name.
pub(crate) fn cut(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

pub(crate) fn by() -> MadeBy {
    MadeBy { mode: 0o666, umask: 0o022, uid: 1_000, gid: 1_001 }
}

impl World {
    /// Walks to a directory below a bucket.
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

    /// As `mkdir -p`.
    pub(crate) async fn walk_making(&self, mount: usize, bucket: usize, directory: &str) -> Ino {
        let files = &self.mounts[mount].files;
        let mut at = self.walk(mount, bucket, "").await.expect("a bucket");
        for name in directory.split('/').filter(|name| !name.is_empty()) {
            at = match files.look_up(at, name.as_bytes()).await {
                Ok(found) => found.ino,
                Err(Errno::NOENT) => {
                    let by = MadeBy { mode: 0o777, ..by() };
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

    /// Removes the directories of a bucket that holds no object.
    pub(crate) async fn remove_directories(&self, bucket: usize) {
        // Moves of empty directories can lead deeper than keys do.
        for _ in 0..8 {
            for mount in 0..2 {
                for directory in ["x/e/e", "d/e/e"].iter().chain(DIRECTORIES.iter().rev()) {
                    self.remove_empty(mount, bucket, directory).await;
                }
            }
        }
    }

    async fn remove_empty(&self, mount: usize, bucket: usize, directory: &str) {
        let Ok(found) = self.walk(mount, bucket, directory).await else { return };
        let files = &self.mounts[mount].files;
        // Whatever is below goes first.
        let handle = files.open_directory(found).await.expect("a directory");
        let mut names = Vec::new();
        let told = files.read_directory(handle, 0, |entry| {
            names.push(entry.name.clone());
            true
        });
        told.await.expect("its names");
        files.release_directory(handle);
        for name in names.iter().filter(|name| **name != b"." && **name != b"..") {
            let _gone = files.remove_directory(found, name).await;
        }
        let (above, last) = cut(directory);
        let above = self.walk(mount, bucket, above).await.expect("it is there");
        let _gone = files.remove_directory(above, last.as_bytes()).await;
    }
}
