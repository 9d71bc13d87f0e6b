//! The thread that may be stuck in the kernel.
//!
//! The kernel takes a notice only when it has the lock of a page or of a directory, which a request
//! in flight may hold, and a wait for that is ended by no signal. If the process is killed meanwhile,
//! the thread stays, and with it all files of the process would stay open: locks of databases,
//! connections with transactions begun. The request that it waits for is answered by the next process
//! alone, which waits for those. So this thread has a table of files of its own with nothing in it but
//! the device, and no signal is handled by it. Nothing but memory is used to speak with it.
//!
//! What notices say is not known here.

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

/// Messages on their way to the device, written one after the other.
#[derive(Debug)]
pub(crate) struct NoticeWriter(Mutex<WriterChannels>);

/// A message to the thread, and what came of it.
#[derive(Debug)]
struct WriterChannels {
    messages: SyncSender<Vec<u8>>,
    written: Receiver<Result<(), Errno>>,
}

impl NoticeWriter {
    /// Starts the thread, which ends when this is dropped.
    pub(crate) fn start(device: &Device) -> io::Result<NoticeWriter> {
        let (messages, to_write) = sync_channel::<Vec<u8>>(1);
        let (write_ends, written) = sync_channel(1);
        let (begins, begun) = sync_channel(1);
        let theirs = device.clone();
        thread::Builder::new().name("fuse-notice-writer".to_owned()).spawn(move || {
            let apart = isolate_descriptors(theirs);
            let (device, result) = match apart {
                Ok(device) => (Some(device), Ok(())),
                Err(error) => (None, Err(error)),
            };
            if begins.send(result).is_err() {
                return;
            }
            let Some(device) = device else { return };
            for message in to_write {
                if write_ends.send(device.write(&[IoSlice::new(&message)])).is_err() {
                    return;
                }
            }
        })?;
        // Until the thread has let go of the descriptor that it was started with, this one holds it:
        // the last to let go closes it, and only in its own table.
        let begun = begun.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
        begun.map(|()| NoticeWriter(Mutex::new(WriterChannels { messages, written })))
    }

    /// Writes one message, and waits until the kernel has taken it.
    pub(crate) fn write(&self, message: Vec<u8>) -> Result<(), Errno> {
        let channels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        channels.messages.send(message).map_err(|_| Errno::ENODEV)?;
        channels.written.recv().unwrap_or(Err(Errno::ENODEV))
    }
}

/// Gives the calling thread a table of files with the device alone in it.
fn isolate_descriptors(device: Device) -> io::Result<Device> {
    SigSet::all().thread_block()?;
    unshare(CloneFlags::CLONE_FILES)?;
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
        // The one that listed them is among them, and closed by now.
        let _closed = nix::unistd::close(number);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
