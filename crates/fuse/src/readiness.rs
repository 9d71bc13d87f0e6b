//! Waiting for requests, with a way to end the wait.
//!
//! A reader that blocks in read(2) can be woken only by a request. So each reader waits on an
//! `epoll` of its own, for the device and for a *bell* (an eventfd). The device is added with
//! `EPOLLEXCLUSIVE`: the kernel then wakes one reader for a request and not all, and prefers the
//! same one while it is idle. For example, a stop rings the bell, and both readers return.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno as SystemErrno;

use crate::device::Device;
use crate::errno::Errno;

/// A bell: an eventfd that wakes all readers (threads that read requests). They do not wait again
/// after it has rung, because it is never reset.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// Creates a bell that has not rung.
    pub(crate) fn new() -> Result<Bell, Errno> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes all readers that wait, and lets later waits end at once.
    pub(crate) fn ring(&self) -> Result<(), Errno> {
        rustix::io::write(&self.0, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}

/// The `epoll` on which one reader (a thread that reads requests) waits.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    /// Creates the `epoll` of one reader for the device and the bell, which ends the wait of all
    /// readers. Sets the device to non-blocking mode.
    pub(crate) fn new(device: &Device, bell: &Bell) -> Result<Watch, Errno> {
        // Another reader may take the request between the wake-up and the read, which must not
        // block then.
        fcntl_setfl(device, fcntl_getfl(device)? | OFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        // The device wakes one reader; the bell below wakes all.
        let one_of_many = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&epoll, device, data, one_of_many)?;
        epoll::add(&epoll, &bell.0, data, epoll::EventFlags::IN)?;
        Ok(Watch(epoll))
    }

    /// Waits until the device may have a request or the mount has ended, or until the bell rings.
    pub(crate) fn wait(&self) -> Result<(), Errno> {
        let mut events = [const { MaybeUninit::uninit() }; 2];
        match epoll::wait(&self.0, &mut events, None) {
            Ok(_) | Err(SystemErrno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
