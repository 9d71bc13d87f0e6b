//! Taking note of what programs have open.

use std::io;

use tracing::warn;

use crate::handles::KeptHandle;
use crate::ledger::Ledger;

impl Ledger {
    /// Takes note of a handle before anybody is given it.
    pub fn opened(&self, kept: KeptHandle) -> io::Result<()> {
        let KeptHandle { handle, ino, request, directory } = kept;
        let entry = [handle, ino.0, request, u64::from(directory)];
        let index = self.handles.table.insert(entry)?;
        self.handles.places().insert(handle, index);
        Ok(())
    }

    /// A handle has ended.
    pub fn closed(&self, handle: u64) {
        let index = self.handles.places().remove(&handle);
        if let Some(index) = index
            && let Err(error) = self.handles.table.clear(index)
        {
            warn!(%error, "a handle that has ended could not be removed from the ledger");
        }
    }

    /// The handles that earlier workers gave.
    pub fn kept_handles(&self) -> &[KeptHandle] {
        &self.handles.left
    }
}
