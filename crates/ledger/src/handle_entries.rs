//! Taking note of what programs have open.

use std::io;

use tracing::warn;

use crate::handles::HandleEntry;
use crate::ledger::Ledger;

impl Ledger {
    /// Takes note of a handle before anybody is given it.
    pub fn insert_handle(&self, kept: HandleEntry) -> io::Result<()> {
        let HandleEntry { handle, ino, request, directory } = kept;
        let entry = [handle, ino.0, request, u64::from(directory)];
        let index = self.handles.table.insert(entry)?;
        self.handles.slots().insert(handle, index);
        Ok(())
    }

    /// A handle has ended.
    pub fn remove_handle(&self, handle: u64) {
        let index = self.handles.slots().remove(&handle);
        if let Some(index) = index
            && let Err(error) = self.handles.table.clear(index)
        {
            warn!(%error, "a handle that has ended could not be removed from the ledger");
        }
    }

    /// The handles that earlier workers gave.
    pub fn inherited_handles(&self) -> &[HandleEntry] {
        &self.handles.inherited
    }
}
