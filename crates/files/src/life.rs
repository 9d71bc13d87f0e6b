//! The life of an open file: if it has a name, and if the store has its record.
//!
//! A program can use a file after its last name was removed. The store keeps the record of most
//! such files until they are closed, but not of all. For example, a DELETE of an object of 2 KiB
//! deletes the record at once: a program that has the file open can read and write it, and nothing
//! is committed.

/// The life of an open file, as far as this worker (process of the mount) knows it.
///
/// ```text
///            last name removed
///            ────────────────▶
///   Linked                      Unlinked
///     │      ◀────────────────     │
///     │          new name          │
///     │ record gone                │ record gone
///     ▼      last name removed     ▼
///            ────────────────▶
///   DeletedUnseen               Deleted
///            ◀────────────────
///            new name, in a replay
/// ```
///
/// No record comes back. A replay begins with what the store has now, and then repeats the names
/// that the log has, so it can give a deleted file a name.
///
/// `DeletedUnseen` and `Deleted` differ in one respect: the kernel may still have attributes with a
/// link in its cache. The first lock that finds the last name removed has the kernel drop them,
/// because programs check the link of a lock file after they got the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    /// The file has a name.
    #[default]
    Linked,
    /// The last name of the file was removed. The store has the record until the file is closed.
    Unlinked,
    /// The store has no record of the file any more. Nothing can be committed then, but the open
    /// handles still work. That the last name was removed was not noted yet.
    DeletedUnseen,
    /// The store has no record of the file any more, and it was noted that its last name was
    /// removed.
    Deleted,
}

impl Life {
    /// Returns true if the file has a name, so that programs see a link.
    pub(crate) fn is_linked(self) -> bool {
        match self {
            Life::Linked => true,
            Life::Unlinked | Life::DeletedUnseen | Life::Deleted => false,
        }
    }

    /// Returns true if it was noted that the last name of the file was removed.
    pub(crate) fn is_unlinked(self) -> bool {
        match self {
            Life::Unlinked | Life::Deleted => true,
            Life::Linked | Life::DeletedUnseen => false,
        }
    }

    /// Returns true if the store has no record of the file any more.
    pub(crate) fn is_deleted(self) -> bool {
        match self {
            Life::DeletedUnseen | Life::Deleted => true,
            Life::Linked | Life::Unlinked => false,
        }
    }

    /// Returns the life after the last name of the file was removed.
    pub(crate) fn unlinked(self) -> Life {
        match self {
            Life::Linked | Life::Unlinked => Life::Unlinked,
            Life::DeletedUnseen | Life::Deleted => Life::Deleted,
        }
    }

    /// Returns the life after the file got a name.
    pub(crate) fn named(self) -> Life {
        match self {
            Life::Linked | Life::Unlinked => Life::Linked,
            Life::DeletedUnseen | Life::Deleted => Life::DeletedUnseen,
        }
    }

    /// Returns the life after the store has lost the record of the file.
    pub(crate) fn deleted(self) -> Life {
        match self {
            Life::Linked | Life::DeletedUnseen => Life::DeletedUnseen,
            Life::Unlinked | Life::Deleted => Life::Deleted,
        }
    }
}

#[cfg(test)]
mod tests;
