//! Operations that change names and attributes: create, link, unlink, rename, setattr.
//!
//! Each is one commit of the volume, with the request's entry in the journal (the ledger's table of
//! requests that are not answered). So the next worker, the process that serves the mount after
//! this one, knows whether it was committed. On a read-only file system each fails with `EROFS`.
//! Operations that add a name fail with `ENAMETOOLONG` if it has more than 255 bytes. Operations
//! that create a node or a link fail with `EEXIST` if the name exists. Operations that remove or
//! rename a name fail with `ENOENT` if it does not exist. For example, a worker is killed after the
//! commit of a mkdir(2) and before the reply: the kernel sends the request again, and the next
//! worker replies with the directory instead of `EEXIST`.

use std::sync::Arc;

use record::{AccountId, Header, Ino, Kind, ObjectOwnership, SpecialKind, Versioning};
use rustix::io::Errno;
use volume::{
    AttributeChange, Creator, NewBucket, NewNode, NodeName, RenameMode, empty_file, without_rights,
};

use crate::attributes::NodeStat;
use crate::file_change::FileChange;
use crate::files::{Files, NAME_BYTES_MAX};
use crate::flush::changes_rights;
use crate::open::{HandleId, OpenMode, OpenedFile};

/// The longest target of a symbolic link, in bytes.
const TARGET_BYTES_MAX: usize = 4_095;

/// The permission bits of a mode, with set-user-ID, set-group-ID and sticky.
const MODE_BITS: u32 = 0o7777;

/// The permissions and owner of a node that is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// The requested permission bits.
    pub mode: u32,
    /// The umask of the program: the permission bits to clear. Ignored if the directory has a
    /// default access control list.
    pub umask: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl CreateOptions {
    fn creator(self) -> Creator {
        let CreateOptions { mode, umask, uid, gid } = self;
        Creator { mode: mode & MODE_BITS, umask, uid, gid }
    }
}

/// A change of the attributes and of the size of a node, as a SETATTR request of the kernel has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetNode {
    /// The attributes to change.
    pub attributes: AttributeChange,
    /// The new size in bytes; `None` keeps it.
    pub size: Option<u64>,
}

impl Files {
    /// Creates a directory. In the root of a volume, this creates a bucket.
    pub async fn make_directory(
        &self,
        directory: Ino,
        name: &[u8],
        by: CreateOptions,
    ) -> Result<NodeStat, Errno> {
        if directory == Ino::ROOT {
            self.check_new_name(name)?;
            return self.make_bucket(name, by).await;
        }
        self.make(directory, name, &NewNode::Directory, by).await
    }

    /// Creates a symbolic link. Fails with `ENAMETOOLONG` if the target has more than 4095 bytes.
    pub async fn make_symlink(
        &self,
        directory: Ino,
        name: &[u8],
        target: &[u8],
        by: CreateOptions,
    ) -> Result<NodeStat, Errno> {
        if target.len() > TARGET_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let node = NewNode::Symlink(target.to_vec());
        self.make(directory, name, &node, CreateOptions { mode: 0o777, umask: 0, ..by }).await
    }

    /// Creates a FIFO, socket or device.
    pub async fn make_special(
        &self,
        directory: Ino,
        name: &[u8],
        kind: SpecialKind,
        device: u32,
        by: CreateOptions,
    ) -> Result<NodeStat, Errno> {
        self.make(directory, name, &NewNode::Special(kind, device), by).await
    }

    /// Creates an empty file without opening it.
    pub async fn make_file(
        &self,
        directory: Ino,
        name: &[u8],
        by: CreateOptions,
    ) -> Result<NodeStat, Errno> {
        self.make(directory, name, &new_file(name), by).await
    }

    /// Creates a node with a name in a directory. Returns its attributes.
    async fn make(
        &self,
        directory: Ino,
        name: &[u8],
        node: &NewNode,
        by: CreateOptions,
    ) -> Result<NodeStat, Errno> {
        self.check_new_name(name)?;
        let made = self
            .retry_until_deadline(|| {
                self.changing().make_node(directory, Some(name), node, by.creator())
            })
            .await?;
        self.names.insert(made.ino, &NodeName { directory, name: name.to_vec() });
        self.remember_directory(&made);
        Ok(NodeStat::of(&made))
    }

    /// Creates an empty file with a name in a directory, and opens it. Fails with `EEXIST` if the
    /// name exists.
    pub async fn create(
        &self,
        directory: Ino,
        name: &[u8],
        by: CreateOptions,
    ) -> Result<OpenedFile, Errno> {
        self.check_new_name(name)?;
        let node = new_file(name);
        let new_name = NodeName { directory, name: name.to_vec() };
        if let Some(opened) = self.create_in_memory(&new_name, &node, by.creator()).await? {
            return Ok(opened);
        }
        let reading = self.volume.reading();
        let made = self
            .retry_until_deadline(|| {
                self.changing().make_node(directory, Some(name), &node, by.creator())
            })
            .await?;
        self.names.insert(made.ino, &new_name);
        let opened = self.add_handle(made, reading).await?;
        let file = self.open.get(opened.attributes.ino);
        file.iter().for_each(|file| file.note_made());
        Ok(opened)
    }

    /// Creates an empty file without a name and opens it (`O_TMPFILE`). It is deleted when its last
    /// handle is closed, unless it was linked before.
    pub async fn create_unnamed(
        &self,
        directory: Ino,
        by: CreateOptions,
    ) -> Result<OpenedFile, Errno> {
        self.check_writable()?;
        let reading = self.volume.reading();
        let node = NewNode::File(Box::new(empty_file()));
        let made = self
            .retry_until_deadline(|| {
                self.changing().make_node(directory, None, &node, by.creator())
            })
            .await?;
        self.add_handle(made, reading).await
    }

    /// Creates a bucket as a directory of the root. Fails with `EINVAL` if S3 does not allow the
    /// name.
    async fn make_bucket(&self, name: &[u8], by: CreateOptions) -> Result<NodeStat, Errno> {
        let name = std::str::from_utf8(name).ok().filter(|name| is_bucket_name(name));
        let name = name.ok_or(Errno::INVAL)?;
        // A bucket has a umask instead of a mode.
        let umask = MODE_BITS & !(by.mode & !by.umask);
        let new = NewBucket {
            versioning: Versioning::Off,
            account: AccountId::MAIN,
            ownership: ObjectOwnership::BucketOwnerEnforced,
            configs: &[],
            uid: by.uid,
            gid: by.gid,
            umask,
        };
        self.retry_until_deadline(|| self.changing().make_bucket_directory(name, &new)).await?;
        self.look_up(Ino::ROOT, name.as_bytes()).await
    }

    /// Removes a name of a node that is not a directory. Programs that have the file open can use
    /// it until they close it.
    pub async fn unlink(&self, directory: Ino, name: &[u8]) -> Result<(), Errno> {
        self.check_writable()?;
        let name = NodeName { directory, name: name.to_vec() };
        // Before the commit, which may delete the record that open handles need.
        self.log_record(&name).await?;
        let removed = self.retry_until_deadline(|| self.changing().remove_name(&name)).await?;
        self.note_unlinked(removed.ino, &name, removed.last).await;
        Ok(())
    }

    /// Removes an empty directory; in the root of a volume, an empty bucket.
    pub async fn remove_directory(&self, directory: Ino, name: &[u8]) -> Result<(), Errno> {
        self.check_writable()?;
        if directory == Ino::ROOT {
            let name = std::str::from_utf8(name).map_err(|_| Errno::NOENT)?;
            return self
                .retry_until_deadline(|| self.changing().remove_bucket_directory(name))
                .await;
        }
        let name = NodeName { directory, name: name.to_vec() };
        let removed = self.retry_until_deadline(|| self.changing().remove_directory(&name)).await?;
        self.names.remove(removed.ino, &name);
        Ok(())
    }

    /// Renames a node, as renameat2(2) does. `from` and `to` are each a directory and a name in it;
    /// `mode` says what may happen to a node that has the new name.
    pub async fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<(), Errno> {
        self.check_new_name(to.1)?;
        let from = NodeName { directory: from.0, name: from.1.to_vec() };
        let to = NodeName { directory: to.0, name: to.1.to_vec() };
        self.log_record(&to).await?;
        let renamed =
            self.retry_until_deadline(|| self.changing().rename_node(&from, &to, mode)).await?;
        if let Some((ino, last)) = renamed.replaced {
            self.note_unlinked(ino, &to, last).await;
        }
        if let (Some(file), Some(retention)) = (self.open.get(renamed.ino), renamed.retention) {
            file.state.lock().await.keep_own_retention(retention, false);
        }
        self.note_exists(renamed.ino).await;
        self.names.remove(renamed.ino, &from);
        self.names.insert(renamed.ino, &to);
        self.log_name(renamed.ino, &to).await;
        if let Some(ino) = renamed.exchanged {
            self.names.insert(ino, &from);
        }
        Ok(())
    }

    /// Renames a node and leaves a whiteout under the old name: a device with number 0, by which an
    /// overlay file system marks a name as deleted. `owner` is the user and group of the whiteout.
    /// Fails with `EEXIST` if the new name exists and `replaces` is false.
    pub async fn rename_to_whiteout(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        owner: (u32, u32),
        replaces: bool,
    ) -> Result<(), Errno> {
        self.check_writable()?;
        let whiteout =
            self.retry_until_deadline(|| self.volume.new_whiteout(owner, replaces)).await?;
        self.rename(from, to, RenameMode::Whiteout(whiteout)).await
    }

    /// Clears the set-user-ID and set-group-ID bits of an open file that an unprivileged program is
    /// about to change, as write(2) does. Needed for fallocate(2) and `copy_file_range`(2), where
    /// the kernel does not ask for it.
    pub async fn drop_rights(&self, handle: HandleId) -> Result<(), Errno> {
        let file = Arc::clone(&self.open.handle(handle)?.file);
        let mode = self.attributes_of_open(&file).await?.mode;
        if without_rights(mode) == mode {
            return Ok(());
        }
        let attributes = AttributeChange { drop_rights: true, ..AttributeChange::default() };
        self.set(file.ino, None, SetNode { attributes, size: None }).await?;
        self.invalidate_cache_soon(file.ino);
        Ok(())
    }

    /// Adds a name (a hard link) to a node. Returns the attributes of the node.
    pub async fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> Result<NodeStat, Errno> {
        self.check_new_name(name)?;
        if let Some(file) = self.open.get(ino) {
            // The dirty data must be visible under both names.
            self.flush_file(&file).await?;
        }
        let to = NodeName { directory, name: name.to_vec() };
        let known_name = self.names.get(ino);
        let _until_done = self.keep_name(ino, known_name.as_ref());
        let linked = self
            .retry_until_deadline(|| self.changing().link_node(ino, known_name.as_ref(), &to))
            .await?;
        self.names.insert(ino, &to);
        if let Some(file) = self.open.get(ino) {
            let mut state = file.state.lock().await;
            if let Some(retention) = linked.retention {
                state.keep_own_retention(retention, linked.is_first_name);
            }
            self.note_name(&mut state, &to);
        }
        Ok(self.visible_stat(&linked.node).await)
    }

    /// Changes attributes, and the size, of a node. Returns the new attributes. If the file has
    /// dirty data, the change is committed by the next flush, together with the data. If it changes
    /// the mode or an owner, and the session is not alone, that flush runs before this returns;
    /// only a file that the mount has just created waits for its close.
    pub async fn set(
        &self,
        ino: Ino,
        handle: Option<HandleId>,
        change: SetNode,
    ) -> Result<NodeStat, Errno> {
        self.check_writable()?;
        let SetNode { mut attributes, size } = change;
        // An explicit access time replaces one that was noted and not committed.
        if attributes.accessed.is_some() {
            self.access_times.forget(ino);
        }
        if let Some(size) = size {
            let drop_rights = std::mem::take(&mut attributes.drop_rights);
            self.resize(ino, handle, size, drop_rights).await?;
        }
        if size.is_some() && attributes.is_none() {
            return self.attributes(ino).await;
        }
        if let Some(file) = self.open.get(ino) {
            let mut state = file.state.lock().await;
            if state.is_dirty() || state.flushing.is_some() || state.life.is_deleted() {
                // Not committed now: a separate commit would overtake the writes before it.
                let now = self.volume.now();
                self.log_and_apply(&mut state, &FileChange::Set { attributes, now })?;
                drop(state);
                // Other sessions must not grant permissions that a program has taken away.
                if changes_rights(&attributes) && !file.is_young() && !self.volume.is_alone() {
                    self.flush_file(&file).await?;
                }
                return Ok(self.with_access_time(file.attributes(None).await));
            }
        }
        let set =
            self.retry_until_deadline(|| self.changing().set_attributes(ino, &attributes)).await?;
        // The times and links of a directory are counters, which must be read.
        if set.inode.kind() == Kind::Directory {
            return self.attributes(ino).await;
        }
        Ok(self.visible_stat(&set).await)
    }

    /// Fails with `EROFS` on a read-only file system, and with `ENAMETOOLONG` for a name of more
    /// than 255 bytes.
    fn check_new_name(&self, name: &[u8]) -> Result<(), Errno> {
        self.check_writable()?;
        if name.len() > NAME_BYTES_MAX { Err(Errno::NAMETOOLONG) } else { Ok(()) }
    }

    /// Opens a file by its name. Needed if the kernel asks to create a file, because it found no
    /// such name before, and another client has created it meanwhile.
    pub async fn open_by_name(
        &self,
        directory: Ino,
        name: &[u8],
        mode: OpenMode,
    ) -> Result<OpenedFile, Errno> {
        let found = self.find(&NodeName { directory, name: name.to_vec() }).await?;
        self.open(found.ino, mode).await
    }
}

/// Returns a new empty file whose content type is guessed from the extension of its name.
fn new_file(name: &[u8]) -> NewNode {
    let mut file = empty_file();
    let guess =
        std::str::from_utf8(name).ok().and_then(|name| mime_guess::from_path(name).first_raw());
    file.object.headers.extend(guess.map(|guess| (Header::ContentType, guess.to_owned())));
    NewNode::File(Box::new(file))
}

/// Returns true if S3 allows this name for a bucket.
fn is_bucket_name(name: &str) -> bool {
    let is_legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-';
    let is_end = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    (3..=63).contains(&name.len())
        && name.bytes().all(is_legal)
        && is_end(name.bytes().next())
        && is_end(name.bytes().next_back())
        && !name.contains("..")
        && name.parse::<std::net::Ipv4Addr>().is_err()
}
