//! POSIX access control lists: who may do what with a node, beyond its permission bits.
//!
//! A list is kept as Linux says it in the attributes `system.posix_acl_access` and, of a directory,
//! `system.posix_acl_default`. What stands in it for the owner, the mask and the others is what the
//! permission bits of the node say, always: whoever changes the one changes the other in the same
//! plan. A list that says no more than permission bits do is not kept. Nothing here decides whether
//! somebody is let in.

use bytes::Bytes;
use record::{Xattr, XattrPlace};

/// The version of the form in which Linux says a list.
const FORM: [u8; 4] = 2_u32.to_le_bytes();

/// Bytes of an entry in that form.
const ENTRY_BYTES: usize = 8;

/// The most bytes of a list: it always stands in the inode's record, where permission bits are.
const ACL_BYTES_MAX: usize = FORM.len() + ENTRY_BYTES * ENTRIES_MAX;

/// The most entries of a list.
const ENTRIES_MAX: usize = 127;

const _: () = assert!(ACL_BYTES_MAX <= record::XATTR_INLINE_BYTES_MAX);

/// Whom an entry names that names nobody.
const NOBODY: u32 = u32::MAX;

/// The bits of `st_mode` that a list has a say in.
const FOLDED: u32 = 0o777;

/// Which of its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclKind {
    /// Who may do what with the node.
    Access,
    /// What is made in the directory has this one.
    Default,
}

impl AclKind {
    /// The name of the attribute that says it.
    pub const fn attribute(self) -> &'static [u8] {
        match self {
            AclKind::Access => b"system.posix_acl_access",
            AclKind::Default => b"system.posix_acl_default",
        }
    }

    /// The list that an attribute of this name says.
    pub fn of(attribute: &[u8]) -> Option<AclKind> {
        [AclKind::Access, AclKind::Default].into_iter().find(|kind| kind.attribute() == attribute)
    }
}

/// Whom an entry is about, by the numbers of Linux, which are in the order of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whom {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    /// The most that users and groups are given, the owner apart.
    Mask = 0x10,
    Others = 0x20,
}

impl Whom {
    const ALL: [Whom; 6] =
        [Whom::Owner, Whom::User, Whom::OwningGroup, Whom::Group, Whom::Mask, Whom::Others];

    const fn is_named(self) -> bool {
        matches!(self, Whom::User | Whom::Group)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    whom: Whom,
    /// Reading 4, writing 2, executing 1.
    permission: u16,
    /// The user or group that is named, or `NOBODY`.
    id: u32,
}

/// A list: the owner once, users, the owning group once, groups, a mask at most once and certainly
/// where a user or group is named, the others once, in this order; at most `ENTRIES_MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<Entry>,
}

/// Why bytes are no list that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAcl {
    /// They are not in the form, or no valid list.
    #[error("not a valid access control list")]
    Invalid,
    /// They are in a later form.
    #[error("an access control list in a form that is not known")]
    Form,
    /// There are more than `ENTRIES_MAX` entries.
    #[error("the access control list has too many entries")]
    TooLong,
}

impl Acl {
    /// Reads a list from the form in which Linux says it. One without entries is none.
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
        let count = |whom| self.entries.iter().filter(|entry| entry.whom == whom).count();
        let mask = count(Whom::Mask);
        self.entries.is_sorted_by_key(|entry| entry.whom)
            && [Whom::Owner, Whom::OwningGroup, Whom::Others].map(count) == [1; 3]
            && (mask == 1 || mask == 0 && count(Whom::User) + count(Whom::Group) == 0)
    }

    /// The form in which Linux says it.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = FORM.to_vec();
        for Entry { whom, permission, id } in &self.entries {
            bytes.extend_from_slice(&(*whom as u16).to_le_bytes());
            bytes.extend_from_slice(&permission.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes.into()
    }

    /// Permission bits that go with it. The other bits of `mode` stay.
    pub fn mode(&self, mode: u32) -> u32 {
        let bits = self.entries.iter().map(|entry| match self.place(entry.whom) {
            Some(place) => u32::from(entry.permission) << place,
            None => 0,
        });
        mode & !FOLDED | bits.sum::<u32>()
    }

    /// Whether permission bits say as much.
    pub fn is_mode(&self) -> bool {
        !self.entries.iter().any(|entry| entry.whom.is_named() || entry.whom == Whom::Mask)
    }

    /// The list that goes with other permission bits.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Acl {
        self.fold(|_, bits| bits, mode);
        self
    }

    /// Of a directory's default list: the list and the permission bits of what is made in it with
    /// the bits `wanted`. What both give is given.
    pub fn inherited(mut self, wanted: u32) -> (Option<Acl>, u32) {
        self.fold(|own, bits| own & bits, wanted);
        let mode = self.mode(wanted);
        ((!self.is_mode()).then_some(self), mode)
    }

    /// Changes the entries that permission bits say.
    fn fold(&mut self, fold: impl Fn(u16, u16) -> u16, mode: u32) {
        let places: Vec<_> = self.entries.iter().map(|entry| self.place(entry.whom)).collect();
        for (entry, place) in self.entries.iter_mut().zip(places) {
            if let Some(place) = place {
                let [bits, ..] = (mode >> place & 0o7).to_le_bytes();
                entry.permission = fold(entry.permission, u16::from(bits));
            }
        }
    }

    /// Where in permission bits an entry stands. The bits of the group are those of the mask, where
    /// there is one.
    fn place(&self, whom: Whom) -> Option<u32> {
        match whom {
            Whom::Owner => Some(6),
            Whom::Mask => Some(3),
            Whom::OwningGroup if self.is_mode() => Some(3),
            Whom::Others => Some(0),
            Whom::OwningGroup | Whom::User | Whom::Group => None,
        }
    }

    /// The list among a node's attributes, if there is one.
    pub fn find(xattrs: &[Xattr], kind: AclKind) -> Option<Acl> {
        let xattr = xattrs.iter().find(|xattr| xattr.name == kind.attribute())?;
        let XattrPlace::Inline(bytes) = &xattr.value else { return None };
        // Nothing is kept that was not a valid list.
        Acl::parse(bytes).ok().flatten()
    }

    /// Gives a node a list in place of the one that it has, or none. Attributes stay in the order of
    /// their names.
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
    let [whom_low, whom_high, permission_low, permission_high, id @ ..] = bytes;
    let number = u16::from_le_bytes([whom_low, whom_high]);
    let whom = Whom::ALL.into_iter().find(|whom| *whom as u16 == number)?;
    let permission = u16::from_le_bytes([permission_low, permission_high]);
    let id = if whom.is_named() { u32::from_le_bytes(id) } else { NOBODY };
    let is_legal = permission <= 0o7 && (!whom.is_named() || id != NOBODY);
    is_legal.then_some(Entry { whom, permission, id })
}

#[cfg(test)]
mod tests;
