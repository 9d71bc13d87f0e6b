//! Names that the ledger has while a request needs them.
//!
//! The next worker (process of the mount) knows no names, so it answers some requests with
//! `ESTALE`. The kernel then looks up the name and sends the request once more, but not twice. For
//! example, a worker is killed during link(2), and the next one as well: without its name in the
//! ledger the third one would answer `ESTALE` again, and the program would get it.

use std::sync::{Arc, PoisonError};

use ledger::{DirtyLog, Ledger};
use record::Ino;
use tracing::warn;
use volume::NodeName;

use crate::change_log::append_change;
use crate::file_change::FileChange;
use crate::files::Files;

/// The name of a node in the ledger, until this is dropped. It is a log without changes.
#[derive(Debug)]
pub(crate) struct NameInUse {
    ledger: Arc<Ledger>,
    log: DirtyLog,
}

impl Drop for NameInUse {
    fn drop(&mut self) {
        self.ledger.end_log(&self.log);
    }
}

impl Files {
    /// Puts a name of a node into the ledger, for a request whose result depends on it. Returns
    /// `None` if there is no name or no ledger, or if the ledger is full; then the next worker may
    /// answer with `ESTALE`.
    pub(crate) fn keep_name(&self, ino: Ino, name: Option<&NodeName>) -> Option<NameInUse> {
        let (Some(ledger), Some(NodeName { directory, name })) = (&self.options.ledger, name)
        else {
            return None;
        };
        let failed = |error| warn!(%error, "cannot record a name in the ledger");
        let log = ledger.begin_log(ino).map_err(failed).ok()?;
        let mut kept = NameInUse { ledger: Arc::clone(ledger), log };
        let change = FileChange::NameInUse { directory: *directory, name };
        append_change(ledger, &mut kept.log, self.request, &change).map_err(failed).ok()?;
        Some(kept)
    }

    /// Keeps a log of an earlier worker (process of the mount) that has a name for a request in
    /// progress. The kernel may send that request again to this worker, or to the next one.
    pub(crate) fn keep_inherited_name(&self, ino: Ino, name: &NodeName, log: DirtyLog) {
        self.names.insert(ino, name);
        self.inherited_names.lock().unwrap_or_else(PoisonError::into_inner).push(log);
    }

    /// Removes the names of requests of earlier workers from the ledger. Call this when the kernel
    /// has certainly sent these requests again.
    pub fn forget_inherited_names(&self) {
        let Some(ledger) = &self.options.ledger else { return };
        let mut logs = self.inherited_names.lock().unwrap_or_else(PoisonError::into_inner);
        logs.drain(..).for_each(|log| ledger.end_log(&log));
    }
}
