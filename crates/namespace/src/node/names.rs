//! Listing the names in a directory: `readdir`.
//!
//! For example, a bucket with the keys `a` and `a/b` has a file `a` and a directory `a`. A listing
//! shows the directory only.

use record::{Dentry, INLINE_PERMANENT_MAX, Ino, InodeHead, Kind, SortKey, key};
use store::{Entry, Follow, Key, Read};

use crate::Halt;
use crate::run::{Env, Planner, Step};
use crate::view::after;
use crate::view::{View, decode};

/// The most bytes of an inode's record that a page with [`ReadNames::whole_inodes`] reads. It is
/// enough for the whole record of most files, also if their content is in the record permanently.
/// Longer records are cut.
const LISTED_INODE_BYTES_MAX: u32 = 5 << 10;

const _: () = assert!(LISTED_INODE_BYTES_MAX as usize >= INLINE_PERMANENT_MAX + (1 << 10));

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedName {
    /// The name in the directory, without a slash.
    pub name: Vec<u8>,
    /// The inode number that it is bound to.
    pub ino: Ino,
    /// The kind of the node that the name binds.
    pub kind: Kind,
    /// The head of its inode (the first fields, with attributes and size); `None` if the inode is
    /// missing. For a directory, the number of links and later times are in its counters, and not
    /// here.
    pub inode: Option<InodeHead>,
}

/// A page of the names of a directory, in the order of their dentries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedNames {
    /// The names of the page, in the order of their dentries.
    pub names: Vec<ListedName>,
    /// The start of the next page; `None` if this is the last.
    pub next: Option<Vec<u8>>,
}

/// Lists names of a directory. One round trip. The listing leaves out the S3 object `directory/`
/// (an empty name), names that are `.` or `..`, and files that a directory hides.
#[derive(Clone, Debug)]
pub struct ReadNames<'a> {
    /// The inode number of the directory.
    pub directory: Ino,
    /// The start of the page: [`ListedNames::next`] of the page before, or `None` for the first
    /// page.
    pub from: Option<&'a [u8]>,
    /// The most dentries to read. The page may have fewer names, because some are left out.
    pub limit: u32,
    /// True if the caller asks for the inodes of the page next. Then the page reads the records of
    /// most inodes whole, so that a cache of records can answer the caller. Otherwise it reads
    /// their heads, which take fewer bytes.
    pub whole_inodes: bool,
}

impl Planner for ReadNames<'_> {
    type Output = ListedNames;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<ListedNames>, Halt> {
        let (first, end) = key::dentries(self.directory);
        let start = self.from.map_or(first, |from| key::dentry(self.directory, from));
        let follow = if self.whole_inodes {
            Follow { bytes_max: Some(LISTED_INODE_BYTES_MAX), ..key::dentry_to_inode() }
        } else {
            key::dentry_to_head()
        };
        let follow = Some(follow);
        let range = Read::Range { start, end, limit: self.limit, follow };
        let entries = view.ranges(&[range])?.into_iter().flatten().collect::<Vec<_>>();
        let full = entries.len() >= self.limit as usize;
        let next = entries.last().filter(|_| full).map(|last| after(&last.key).suffix().to_vec());
        let hidden = self.hidden_by_directories(view, &entries, full)?;
        let mut names = Vec::with_capacity(entries.len());
        for entry in &entries {
            let dentry = decode(&entry.key, &entry.value, Dentry::decode)?;
            let suffix = entry.key.suffix();
            let name = match dentry.kind {
                Kind::Directory => suffix.strip_suffix(b"/").unwrap_or(suffix),
                Kind::File | Kind::Symlink | Kind::Special => suffix,
            };
            // S3 keys may contain these names, and file programs cannot use them.
            if matches!(name, b"" | b"." | b"..") || hidden.contains(&entry.key) {
                continue;
            }
            let head = entry.target.first_bytes();
            let head = head
                .map(|bytes| decode(&key::inode(dentry.ino), bytes, InodeHead::decode))
                .transpose()?;
            let (ino, kind) = (dentry.ino, dentry.kind);
            names.push(ListedName { name: name.to_vec(), ino, kind, inode: head });
        }
        Ok(Step::Done(ListedNames { names, next }))
    }
}

impl ReadNames<'_> {
    /// The files among `entries` that a directory of the same name hides. The directory `a/` sorts
    /// after the file `a`, and names such as `a.txt` sort between them. If the page may end between
    /// the two, the dentry of the directory is read.
    fn hidden_by_directories(
        &self,
        view: &mut View<'_>,
        entries: &[Entry],
        full: bool,
    ) -> Result<Vec<Key>, Halt> {
        let Some(last) = entries.last().map(|entry| entry.key.suffix().to_vec()) else {
            return Ok(Vec::new());
        };
        let (mut hidden, mut unsure) = (Vec::new(), Vec::new());
        for (at, entry) in entries.iter().enumerate() {
            let suffix = entry.key.suffix();
            if suffix.contains(&b'/') || suffix.is_empty() {
                continue;
            }
            let directory = key::dentry(self.directory, SortKey::directory(suffix).as_bytes());
            if full && last.starts_with(suffix) && last.as_slice() < directory.suffix() {
                unsure.push((entry.key.clone(), directory));
                continue;
            }
            // In most cases the directory is the next entry, so the search is skipped if the next
            // name has another beginning.
            let later = &entries[at + 1..];
            let near = later.first().is_some_and(|next| next.key.suffix().starts_with(suffix));
            if near && later.binary_search_by(|other| other.key.cmp(&directory)).is_ok() {
                hidden.push(entry.key.clone());
            }
        }
        let keys: Vec<Key> = unsure.iter().map(|(_, directory)| directory.clone()).collect();
        let found = view.many(&keys)?;
        for ((file, _), found) in unsure.into_iter().zip(found) {
            hidden.extend(found.is_some().then_some(file));
        }
        Ok(hidden)
    }
}
