//! The signals of a keeper.
//!
//! SIGTERM and SIGINT unmount. SIGHUP opens logs again and never ends the mount, also if it comes
//! from a terminal that closes: a mount outlives its terminal.

use std::io;
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// A signal that a keeper handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeeperSignal {
    /// Unmount.
    Unmount,
    /// Open logs again, and read the configuration again.
    Reload,
}

/// Calls `on_signal` for each signal from now on, on a thread of its own. Fails if the system
/// refuses a handler or the thread.
pub(super) fn watch(on_signal: impl Fn(KeeperSignal) + Send + 'static) -> io::Result<()> {
    // The keeper has no runtime otherwise. This one has no threads besides the one below.
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let (mut terminate, mut interrupt, mut hangup) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );
    drop(entered);
    let watching = async move {
        loop {
            let signal = tokio::select! {
                _ = terminate.recv() => KeeperSignal::Unmount,
                _ = interrupt.recv() => KeeperSignal::Unmount,
                _ = hangup.recv() => KeeperSignal::Reload,
            };
            on_signal(signal);
        }
    };
    let watching = move || runtime.block_on(watching);
    thread::Builder::new().name("signals".to_owned()).spawn(watching).map(drop)
}
