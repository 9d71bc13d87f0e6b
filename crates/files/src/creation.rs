//! A creation of a file that a program got an answer for and that is not committed. It is committed
//! together with the first content, or before it if a request reaches the name: see `creating`.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;
use volume::{FoundNode, NodeName};

/// The creation of a file that is not committed. The inode as it was decided is the committed layer
/// of the open file meanwhile.
#[derive(Debug)]
pub(crate) struct Creation {
    /// The name under which the file is created.
    pub(crate) name: NodeName,
    /// The progress of the commit. Locked during the commit, so that the file is created once, and
    /// never while content is written to blocks.
    pub(crate) progress: Mutex<Progress>,
    /// True if the file exists, and only its content is still to be committed.
    is_made: AtomicBool,
}

/// The progress of the commit of a creation.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// True if a commit was sent before. If its outcome is unknown, the file may exist.
    pub(crate) was_sent: bool,
    /// The file as it was committed or found in the store.
    pub(crate) made: Option<FoundNode>,
}

impl Creation {
    /// Returns a creation that was never sent to the store.
    pub(crate) fn new(name: NodeName) -> Creation {
        Creation { name, progress: Mutex::default(), is_made: AtomicBool::new(false) }
    }

    /// Notes that the file exists.
    pub(crate) fn note_made(&self) {
        self.is_made.store(true, Ordering::Relaxed);
    }

    /// Returns true if the file exists. Then it must not be created again, because it may have been
    /// removed since.
    pub(crate) fn is_made(&self) -> bool {
        self.is_made.load(Ordering::Relaxed)
    }
}
