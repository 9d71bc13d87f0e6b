//! Changing names and attributes.

use std::sync::Arc;

use record::{AccountId, Header, Ino, Kind, ObjectOwnership, SpecialKind, Versioning};
use rustix::io::Errno;
use volume::{
    AttributeChange, Creator, NewBucket, NewNode, NodeName, RenameMode, empty_file, without_rights,
};

use crate::attributes::NodeStat;
use crate::change_log::FileChange;
use crate::files::{Files, NAME_BYTES_MAX};
use crate::open::{HandleId, OpenMode, OpenedFile};

/// The longest target of a symbolic link, in bytes.
const TARGET_BYTES_MAX: usize = 4_095;

/// Permission bits.
const MODE_BITS: u32 = 0o7777;

/// Who makes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// Permission bits that are wanted.
    pub mode: u32,
    /// Bits that are not given, unless the directory's default access control list says what is.
    pub umask: u32,
    /// The user.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
}

impl CreateOptions {
    fn maker(self) -> Creator {
        let CreateOptions { mode, umask, uid, gid } = self;
        Creator { mode: mode & MODE_BITS, umask, uid, gid }
    }
}

/// What is to change about a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetNode {
    /// Attributes.
    pub attributes: AttributeChange,
    /// Its size.
    pub size: Option<u64>,
}

impl Files {
    /// Makes a directory. Directly below the root of a volume it is a bucket.
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

    /// Makes a symbolic link.
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

    /// Makes a FIFO, socket or device.
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

    /// Makes an empty file.
    pub async fn make_file(
        &self,
        directory: Ino,
        name: &[u8],
        by: CreateOptions,
    ) -> Result<NodeStat, Errno> {
        self.make(directory, name, &new_file(name), by).await
    }

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
                self.changing().make_node(directory, Some(name), node, by.maker())
            })
            .await?;
        self.names.insert(made.ino, &NodeName { directory, name: name.to_vec() });
        self.remember_directory(&made);
        Ok(NodeStat::of(&made))
    }

    /// Makes an empty file, and opens it.
    pub async fn create(
        &self,
        directory: Ino,
        name: &[u8],
        by: CreateOptions,
    ) -> Result<OpenedFile, Errno> {
        self.check_new_name(name)?;
        let reading = self.volume.reading();
        let node = new_file(name);
        let made = self
            .retry_until_deadline(|| {
                self.changing().make_node(directory, Some(name), &node, by.maker())
            })
            .await?;
        self.names.insert(made.ino, &NodeName { directory, name: name.to_vec() });
        self.add_handle(made, reading).await
    }

    /// Makes an empty file without a name, and opens it. It goes when it is closed, unless it is
    /// linked.
    pub async fn create_unnamed(
        &self,
        directory: Ino,
        by: CreateOptions,
    ) -> Result<OpenedFile, Errno> {
        self.check_writable()?;
        let reading = self.volume.reading();
        let node = NewNode::File(Box::new(empty_file()));
        let made = self
            .retry_until_deadline(|| self.changing().make_node(directory, None, &node, by.maker()))
            .await?;
        self.add_handle(made, reading).await
    }

    /// Makes a bucket of a directory's name.
    async fn make_bucket(&self, name: &[u8], by: CreateOptions) -> Result<NodeStat, Errno> {
        let name = std::str::from_utf8(name).ok().filter(|name| is_bucket_name(name));
        let name = name.ok_or(Errno::INVAL)?;
        // What is left of the bits that are wanted.
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

    /// Takes a name away from anything but a directory.
    pub async fn unlink(&self, directory: Ino, name: &[u8]) -> Result<(), Errno> {
        self.check_writable()?;
        let name = NodeName { directory, name: name.to_vec() };
        self.log_record(&name).await?;
        let removed = self.retry_until_deadline(|| self.changing().remove_name(&name)).await?;
        self.note_unlinked(removed.ino, &name, removed.last).await;
        Ok(())
    }

    /// Removes an empty directory, and an empty bucket directly below the root of a volume.
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

    /// Gives a node another name.
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
            // The programs that gave the file its retention may go on writing to it.
            let mut state = file.state.lock().await;
            if state.own_retention.is_some() && state.own_retention == retention.before {
                state.own_retention = retention.after;
            }
        }
        self.names.remove(renamed.ino, &from);
        self.names.insert(renamed.ino, &to);
        self.log_name(renamed.ino, &to).await;
        if let Some(ino) = renamed.exchanged {
            self.names.insert(ino, &from);
        }
        Ok(())
    }

    /// Gives a node another name, and leaves a whiteout under the old one: what an overlay file system
    /// needs of its upper layer. `replaces` is false if nothing may have the new name.
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

    /// Takes the rights of the set-user-ID and set-group-ID bits from an open file that a program
    /// without privileges is about to change, as write(2) does. The kernel does not ask for it with
    /// fallocate(2) and `copy_file_range`(2).
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

    /// Gives a node one more name.
    pub async fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> Result<NodeStat, Errno> {
        self.check_new_name(name)?;
        if let Some(file) = self.open.get(ino) {
            // What was written to it is the file's under both names.
            self.flush_file(&file).await?;
        }
        let to = NodeName { directory, name: name.to_vec() };
        let known_name = self.names.get(ino);
        let linked = self
            .retry_until_deadline(|| self.changing().link_node(ino, known_name.as_ref(), &to))
            .await?;
        self.names.insert(ino, &to);
        if let Some(file) = self.open.get(ino) {
            let mut state = file.state.lock().await;
            state.unlinked = false;
            self.log_named(&mut state, &to);
        }
        Ok(self.visible_stat(&linked).await)
    }

    /// Changes attributes of a node. Those of a file with bytes that are not its content yet change
    /// together with it.
    pub async fn set(
        &self,
        ino: Ino,
        handle: Option<HandleId>,
        change: SetNode,
    ) -> Result<NodeStat, Errno> {
        self.check_writable()?;
        let SetNode { mut attributes, size } = change;
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
            if state.is_dirty() || state.flushing.is_some() || state.deleted {
                let now = self.volume.now();
                self.log(&mut state, &FileChange::Set { attributes: &attributes, now })?;
                state.set(&attributes, now);
                drop(state);
                return Ok(self.with_access_time(file.attributes(None).await));
            }
        }
        let set =
            self.retry_until_deadline(|| self.changing().set_attributes(ino, &attributes)).await?;
        if set.inode.kind() == Kind::Directory {
            return self.attributes(ino).await;
        }
        Ok(self.visible_stat(&set).await)
    }

    /// Refuses a name that is not given.
    fn check_new_name(&self, name: &[u8]) -> Result<(), Errno> {
        self.check_writable()?;
        if name.len() > NAME_BYTES_MAX { Err(Errno::NAMETOOLONG) } else { Ok(()) }
    }

    /// Opens a file that came to be while it was about to be made.
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

/// An empty file, with the content type that its name tells.
fn new_file(name: &[u8]) -> NewNode {
    let mut file = empty_file();
    let guess =
        std::str::from_utf8(name).ok().and_then(|name| mime_guess::from_path(name).first_raw());
    file.object.headers.extend(guess.map(|guess| (Header::ContentType, guess.to_owned())));
    NewNode::File(Box::new(file))
}

/// Whether a bucket may have this name, by S3's rules.
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
