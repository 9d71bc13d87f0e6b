//! Writing and reading the table of open handles.

use std::io;

use tracing::warn;

use crate::handles::HandleEntry;
use crate::ledger::Ledger;

impl Ledger {
    /// Records a handle, before it is given to a program. Fails with `StorageFull` if the table is
    /// full.
    pub fn insert_handle(&self, entry: HandleEntry) -> io::Result<()> {
        let HandleEntry { handle, ino, request, directory } = entry;
        let words = [handle, ino.0, request, u64::from(directory)];
        let index = self.handles.table.insert(words)?;
        self.handles.slots().insert(handle, index);
        Ok(())
    }

    /// Removes a handle that was closed.
    pub fn remove_handle(&self, handle: u64) {
        let index = self.handles.slots().remove(&handle);
        if let Some(index) = index
            && let Err(error) = self.handles.table.clear(index)
        {
            warn!(%error, "cannot remove a closed handle from the ledger");
        }
    }

    /// Returns the handles that earlier workers gave.
    pub fn inherited_handles(&self) -> &[HandleEntry] {
        &self.handles.inherited
    }
}
