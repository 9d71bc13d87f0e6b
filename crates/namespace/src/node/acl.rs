//! POSIX access control lists: permissions for single users and groups, beyond the permission bits.
//!
//! A list is stored in the format of the Linux attributes `system.posix_acl_access` and, for
//! directories, `system.posix_acl_default`. The entries for the owner, the mask (or owning group)
//! and others always equal the permission bits of the node. A plan that changes the one changes the
//! other. A list that says no more than permission bits is not stored. For example, the list
//! `u::rw-,u:1001:r--,g::r--,m::r--,o::---` belongs to mode 0640.
//!
//! This module does not decide whether a user gets access.

use bytes::Bytes;
use record::{Xattr, XattrPlace};

/// The version of the Linux format.
const FORM: [u8; 4] = 2_u32.to_le_bytes();

/// The length of an entry in that format, in bytes.
const ENTRY_BYTES: usize = 8;

/// The longest list, in bytes. A list is always inline in the inode's record, next to the
/// permission bits.
const ACL_BYTES_MAX: usize = FORM.len() + ENTRY_BYTES * ENTRIES_MAX;

/// The most entries of an access control list.
const ENTRIES_MAX: usize = 127;

const _: () = assert!(ACL_BYTES_MAX <= record::XATTR_INLINE_BYTES_MAX);

/// The id in an entry that names no user or group.
const NO_ID: u32 = u32::MAX;

/// The bits of `st_mode` that equal entries of a list.
const PERMISSION_BITS: u32 = 0o777;

/// The access control lists that a node may have, one of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclKind {
    /// The list of permissions for the node itself.
    Access,
    /// The list that nodes created in the directory inherit.
    Default,
}

impl AclKind {
    /// The name of the extended attribute with this list.
    pub const fn attribute(self) -> &'static [u8] {
        match self {
            AclKind::Access => b"system.posix_acl_access",
            AclKind::Default => b"system.posix_acl_default",
        }
    }

    /// The kind of the list that the extended attribute of this name contains; `None` for other
    /// attributes.
    pub fn of(attribute: &[u8]) -> Option<AclKind> {
        [AclKind::Access, AclKind::Default].into_iter().find(|kind| kind.attribute() == attribute)
    }
}

/// The subject of an entry: the user or group for which it sets permissions. The numbers are those
/// of Linux, and give the order of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    /// The most that named users, the owning group and named groups may get.
    Mask = 0x10,
    Others = 0x20,
}

impl Subject {
    const ALL: [Subject; 6] = [
        Subject::Owner,
        Subject::User,
        Subject::OwningGroup,
        Subject::Group,
        Subject::Mask,
        Subject::Others,
    ];

    const fn is_named(self) -> bool {
        matches!(self, Subject::User | Subject::Group)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    subject: Subject,
    /// The sum of 4 (read), 2 (write) and 1 (execute).
    permission: u16,
    /// The named user or group, or `NO_ID`.
    id: u32,
}

/// A valid list, in this order: the owner once, named users, the owning group once, named groups,
/// the mask, and others once. The mask occurs at most once, and exactly once if a user or group is
/// named. At most `ENTRIES_MAX` entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<Entry>,
}

/// The reason why bytes are not a valid list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAcl {
    /// The bytes are not in the format, or break a rule of [`Acl`].
    #[error("not a valid access control list")]
    Invalid,
    /// The bytes are in another version of the format.
    #[error("an access control list in an unknown format")]
    Form,
    /// There are more than `ENTRIES_MAX` entries.
    #[error("the access control list has too many entries")]
    TooLong,
}

impl Acl {
    /// Parses a list in the Linux format. Returns `None` for a list without entries, which means
    /// that there is none.
    pub fn parse(bytes: &[u8]) -> Result<Option<Acl>, NotAnAcl> {
        let (form, entries) = bytes.split_at_checked(FORM.len()).ok_or(NotAnAcl::Invalid)?;
        if form != FORM {
            return Err(NotAnAcl::Form);
        }
        let (entries, []) = entries.as_chunks::<ENTRY_BYTES>() else {
            return Err(NotAnAcl::Invalid);
        };
        if entries.is_empty() {
            return Ok(None);
        }
        if entries.len() > ENTRIES_MAX {
            return Err(NotAnAcl::TooLong);
        }
        let entries = entries.iter().copied().map(read_entry).collect::<Option<Vec<Entry>>>();
        let acl = Acl { entries: entries.ok_or(NotAnAcl::Invalid)? };
        if acl.is_valid() { Ok(Some(acl)) } else { Err(NotAnAcl::Invalid) }
    }

    fn is_valid(&self) -> bool {
        let count = |subject| self.entries.iter().filter(|entry| entry.subject == subject).count();
        // Named entries need a mask, because the mask limits them.
        let mask = count(Subject::Mask);
        self.entries.is_sorted_by_key(|entry| entry.subject)
            && [Subject::Owner, Subject::OwningGroup, Subject::Others].map(count) == [1; 3]
            && (mask == 1 || mask == 0 && count(Subject::User) + count(Subject::Group) == 0)
    }

    /// Returns the list in the Linux format.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = FORM.to_vec();
        for Entry { subject, permission, id } in &self.entries {
            bytes.extend_from_slice(&(*subject as u16).to_le_bytes());
            bytes.extend_from_slice(&permission.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes.into()
    }

    /// Returns `mode` with the permission bits of this list. Bits other than permission bits do not
    /// change.
    pub fn mode(&self, mode: u32) -> u32 {
        let bits = self.entries.iter().map(|entry| match self.place(entry.subject) {
            Some(place) => u32::from(entry.permission) << place,
            None => 0,
        });
        mode & !PERMISSION_BITS | bits.sum::<u32>()
    }

    /// Returns true if permission bits alone can express the list: it names no user or group and
    /// has no mask.
    pub fn is_mode(&self) -> bool {
        !self.entries.iter().any(|entry| entry.subject.is_named() || entry.subject == Subject::Mask)
    }

    /// Returns the list with the permission bits of `mode` in the entries that equal permission
    /// bits. Entries of named users and groups stay.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Acl {
        self.fold(|_, bits| bits, mode);
        self
    }

    /// For the default list of a directory: returns the access list and the mode of a node created
    /// there. `wanted` has the requested bits. The node gets the permissions that both the list and
    /// `wanted` grant. The list is `None` if the mode alone expresses it.
    pub fn inherited(mut self, wanted: u32) -> (Option<Acl>, u32) {
        self.fold(|own, bits| own & bits, wanted);
        let mode = self.mode(wanted);
        ((!self.is_mode()).then_some(self), mode)
    }

    /// Replaces the permission of each entry that equals permission bits by `fold` of this
    /// permission and the corresponding bits of `mode`.
    fn fold(&mut self, fold: impl Fn(u16, u16) -> u16, mode: u32) {
        let places: Vec<_> = self.entries.iter().map(|entry| self.place(entry.subject)).collect();
        for (entry, place) in self.entries.iter_mut().zip(places) {
            if let Some(place) = place {
                let [bits, ..] = (mode >> place & 0o7).to_le_bytes();
                entry.permission = fold(entry.permission, u16::from(bits));
            }
        }
    }

    /// The position of an entry's permission in the permission bits of a mode, as a shift. `None`
    /// if the entry equals no bits. If there is a mask, the group bits are those of the mask.
    fn place(&self, subject: Subject) -> Option<u32> {
        match subject {
            Subject::Owner => Some(6),
            Subject::Mask => Some(3),
            Subject::OwningGroup if self.is_mode() => Some(3),
            Subject::Others => Some(0),
            Subject::OwningGroup | Subject::User | Subject::Group => None,
        }
    }

    /// Returns the list among the extended attributes of a node, if there is one.
    pub fn find(xattrs: &[Xattr], kind: AclKind) -> Option<Acl> {
        let xattr = xattrs.iter().find(|xattr| xattr.name == kind.attribute())?;
        let XattrPlace::Inline(bytes) = &xattr.value else { return None };
        // Only valid lists are stored.
        Acl::parse(bytes).ok().flatten()
    }

    /// Replaces a list among the extended attributes of a node, or removes it if `acl` is `None`.
    /// The attributes remain sorted by name.
    pub(super) fn put(xattrs: &mut Vec<Xattr>, kind: AclKind, acl: Option<&Acl>) {
        let name = kind.attribute();
        let place = xattrs.binary_search_by(|xattr| xattr.name.as_slice().cmp(name));
        if let Ok(place) = place {
            xattrs.remove(place);
        }
        if let Some(acl) = acl {
            let value = XattrPlace::Inline(acl.to_bytes().into());
            let (Ok(place) | Err(place)) = place;
            xattrs.insert(place, Xattr { name: name.to_vec(), value });
        }
    }
}

fn read_entry(bytes: [u8; ENTRY_BYTES]) -> Option<Entry> {
    let [subject_low, subject_high, permission_low, permission_high, id @ ..] = bytes;
    let number = u16::from_le_bytes([subject_low, subject_high]);
    let subject = Subject::ALL.into_iter().find(|subject| *subject as u16 == number)?;
    let permission = u16::from_le_bytes([permission_low, permission_high]);
    let id = if subject.is_named() { u32::from_le_bytes(id) } else { NO_ID };
    let is_legal = permission <= 0o7 && (!subject.is_named() || id != NO_ID);
    is_legal.then_some(Entry { subject, permission, id })
}

#[cfg(test)]
mod tests;
