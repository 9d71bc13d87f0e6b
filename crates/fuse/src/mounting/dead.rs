//! Mounts whose server has ended.
//!
//! After a SIGKILL of the server, the mount stays in the kernel's table, and every access to it
//! fails with `ENOTCONN`. The table does not show that, so [`is_dead`] accesses the mount. An
//! access to a mount whose server lives but does not reply can take forever: another thread makes
//! it, and the caller waits for a limited time. For example, a container that mounted and was
//! killed leaves a dead mount on the folder that it shares with the host, and its next start
//! removes it.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::statfs;
use rustix::io::Errno;

/// The limit of time for the reply of a mount. The kernel replies for a dead one at once.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns true if the mount on a folder, given as a full path, has no server any more. Returns
/// false if it has one, or if no reply arrives within [`REPLY_TIMEOUT`].
pub(super) fn is_dead(folder: &Path) -> bool {
    let (reply, replies) = mpsc::sync_channel(1);
    let folder = folder.to_owned();
    // The thread is not joined: if the server does not reply, it ends with the process or the
    // mount.
    let asking = std::thread::Builder::new().name("mount check".to_owned()).spawn(move || {
        // `stat` would not do: for a moment the kernel replies with attributes that it remembers.
        let _caller_gone = reply.send(statfs(&folder).err());
    });
    asking.is_ok()
        && matches!(
            replies.recv_timeout(REPLY_TIMEOUT),
            Ok(Some(Errno::NOTCONN | Errno::CONNABORTED))
        )
}
