//! The thread that writes notifications to the kernel and may block there.
//!
//! The kernel processes an invalidation only after it has the lock of a page or directory. A
//! request in flight may hold that lock, and no signal ends the wait. If the process is killed
//! meanwhile, the thread stays, and would keep all open files of the process open: for example,
//! database locks and connections with open transactions. The request can then be answered only by
//! the next process, which in turn waits for these locks.
//!
//! So this thread has a file table of its own with only the device in it, handles no signals, and
//! communicates through memory alone.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::SigSet;

use crate::device::Device;
use crate::errno::Errno;

/// Writes notifications to the kernel through a thread of its own, one at a time.
#[derive(Debug)]
pub(crate) struct NoticeWriter(Mutex<WriterChannels>);

/// The channels between the callers and the writing thread: the messages to write, and the result
/// of each write.
#[derive(Debug)]
struct WriterChannels {
    messages: SyncSender<Vec<u8>>,
    results: Receiver<Result<(), Errno>>,
}

impl NoticeWriter {
    /// Starts the thread that writes notifications to the device. It ends when the writer is
    /// dropped.
    pub(crate) fn start(device: &Device) -> io::Result<NoticeWriter> {
        let (messages, to_write) = sync_channel::<Vec<u8>>(1);
        let (result_sender, results) = sync_channel(1);
        let (ready, is_ready) = sync_channel(1);
        let shared = device.clone();
        thread::Builder::new().name("fuse-notice-writer".to_owned()).spawn(move || {
            let isolated = isolate_descriptors(shared);
            let (device, result) = match isolated {
                Ok(device) => (Some(device), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // `start` waits for this result. If it has given up, the thread ends too.
            if ready.send(result).is_err() {
                return;
            }
            let Some(device) = device else { return };
            // One at a time: the next message waits until the kernel has processed this one.
            for message in to_write {
                if result_sender.send(device.write(&[IoSlice::new(&message)])).is_err() {
                    return;
                }
            }
        })?;
        // Wait until the thread has its own file table. Until then it shares this process's
        // descriptor, which must not be closed.
        let is_ready = is_ready.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
        is_ready.map(|()| NoticeWriter(Mutex::new(WriterChannels { messages, results })))
    }

    /// Writes one notification to the device, and waits until the kernel has processed it. Fails
    /// with ENODEV if the thread has ended.
    pub(crate) fn write(&self, message: Vec<u8>) -> Result<(), Errno> {
        let channels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        channels.messages.send(message).map_err(|_| Errno::ENODEV)?;
        channels.results.recv().unwrap_or(Err(Errno::ENODEV))
    }
}

/// Gives the calling thread its own file table (the set of open descriptors) with only the device
/// in it. Returns the device as a descriptor of that table. Blocks all signals for the thread.
fn isolate_descriptors(device: Device) -> io::Result<Device> {
    // Signals of the process are for its other threads.
    SigSet::all().thread_block()?;
    // From here on, closing a descriptor in this thread does not close it in the process.
    unshare(CloneFlags::CLONE_FILES)?;
    // A new number, so that dropping the shared handle cannot close it.
    let own = device.as_fd().try_clone_to_owned()?;
    drop(device);
    close_all_but(&own)?;
    Ok(Device::new(own))
}

fn close_all_but(kept: &OwnedFd) -> io::Result<()> {
    let listed = fs::read_dir("/proc/thread-self/fd")?;
    let numbers = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let numbers: Vec<RawFd> = numbers.filter(|number| *number != kept.as_raw_fd()).collect();
    for number in numbers {
        // The list includes the descriptor that read the directory, which is closed already.
        let _closed = nix::unistd::close(number);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
