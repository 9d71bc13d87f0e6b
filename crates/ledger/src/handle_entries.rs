//! Writing and reading the table of open handles.

use std::io;

use tracing::warn;

use crate::handles::HandleEntry;
use crate::ledger::Ledger;

impl Ledger {
    /// Records an open handle of a file or directory in the ledger, before it is given to a
    /// program. So the next worker (process of the mount) can restore it. Fails with `StorageFull`
    /// if `HANDLES_MAX` handles are open.
    pub fn insert_handle(&self, entry: HandleEntry) -> io::Result<()> {
        let HandleEntry { handle, ino, request, directory } = entry;
        let words = [handle, ino.0, request, u64::from(directory)];
        let index = self.handles.table.insert(words)?;
        self.handles.slots().insert(handle, index);
        Ok(())
    }

    /// Removes a handle that was closed, by its number. A failure to write is only logged; the next
    /// worker then restores a handle that no program has.
    pub fn remove_handle(&self, handle: u64) {
        let index = self.handles.slots().remove(&handle);
        if let Some(index) = index
            && let Err(error) = self.handles.table.clear(index)
        {
            warn!(%error, "cannot remove a closed handle from the ledger");
        }
    }

    /// Returns the handles that were open when this worker (process of the mount) began. Earlier
    /// workers gave them to programs, which go on using their numbers.
    pub fn inherited_handles(&self) -> &[HandleEntry] {
        &self.handles.inherited
    }
}
