//! The ledger as a whole.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::dirty::DirtyLogs;
use crate::error::LedgerError;
use crate::handles::Handles;
use crate::header::Header;
use crate::journal::Journal;
use crate::locks::Locks;

/// The ledger of a mount, opened by its worker (the process that serves the mount). It is a file in
/// memory with the state that the next worker needs: session, unanswered requests, open handles,
/// dirty data and locks.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) header: Header,
    pub(crate) journal: Arc<Journal>,
    pub(crate) handles: Handles,
    pub(crate) dirty: DirtyLogs,
    pub(crate) locks: Locks,
}

impl Ledger {
    /// Creates the file of an empty ledger in memory. The keeper, the process that holds the mount,
    /// passes its descriptor to each worker. The file exists while a descriptor is open.
    pub fn make() -> io::Result<File> {
        let made = rustix::fs::memfd_create("ashlar-mount", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(File::from(made))
    }

    /// Opens the ledger as the next worker (the process that serves the mount from now on), and
    /// reads the state that earlier workers left in it. Fails with [`LedgerError::Format`] if
    /// another release created it.
    pub fn open(descriptor: OwnedFd) -> Result<Ledger, LedgerError> {
        let file = Arc::new(File::from(descriptor));
        let header = Header::open(&file)?;
        Ok(Ledger {
            journal: Arc::new(Journal::open(&file)?),
            handles: Handles::open(&file)?,
            dirty: DirtyLogs::open(&file, header.worker)?,
            locks: Locks::open(&file)?,
            header,
        })
    }
}
