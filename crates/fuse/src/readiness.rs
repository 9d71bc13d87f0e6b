//! Waiting for requests, in a way that can be ended.
//!
//! A reader that waits in read(2) cannot be woken but by a request. So it waits for the device and
//! for a bell, of which each reader has an `epoll` of its own: the kernel then wakes one reader for
//! a request and not all of them, and always the same one while that has time.
//!
//! What is read is not known here.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno as SystemErrno;

use crate::device::Device;
use crate::errno::Errno;

/// Wakes all readers, and keeps them from waiting again.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> Result<Bell, Errno> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) -> Result<(), Errno> {
        rustix::io::write(&self.0, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}

/// One reader's way to wait.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    /// Waits for the device, whose reads no longer wait from now on, and for the bell.
    pub(crate) fn new(device: &Device, bell: &Bell) -> Result<Watch, Errno> {
        fcntl_setfl(device, fcntl_getfl(device)? | OFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        let one_of_many = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&epoll, device, data, one_of_many)?;
        epoll::add(&epoll, &bell.0, data, epoll::EventFlags::IN)?;
        Ok(Watch(epoll))
    }

    /// Waits until there may be a request, the mount is gone, or the bell rang.
    pub(crate) fn wait(&self) -> Result<(), Errno> {
        let mut events = [const { MaybeUninit::uninit() }; 2];
        match epoll::wait(&self.0, &mut events, None) {
            Ok(_) | Err(SystemErrno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
