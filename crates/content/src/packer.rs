//! Small bodies that share a block.
//!
//! A backend charges for every object. So bodies that are verified at about the same time are put
//! together in one block, a *pack*, one behind the other. A body without others to share with is
//! put at once, in an ordinary block. Each body's writer is answered when its block is durable.
//!
//! **When a pack is sent.** Verified bodies wait in a queue. Three events may make them due:
//! another body arrives, a timer fires, or the put of a pack ends. At each of these events,
//! [`Queue::is_due`] decides:
//!
//! 1. *Normal case.* While [`Packing::packs_in_flight`] packs are under way, bodies wait. Otherwise
//!    they are sent when their window has passed, or earlier, when as many have gathered as there
//!    were recently. The window is [`Packing::window`] plus a time that depends on the body's
//!    length; that is about as long as the body's own put would take. With a single client there
//!    were no other bodies recently, so its bodies do not wait.
//! 2. *After a pack has landed.* Bodies that gathered while a pack was under way are sent when it
//!    lands. Or they wait a little longer for the next bodies of the clients whose pack landed: see
//!    [`batch_rejoin`].
//! 3. *Full, or overdue.* A full pack gains nothing by waiting. If the backend takes
//!    [`SLOW_PUT_WINDOWS`] times as long as the window, waiting for it costs more than sharing
//!    saves. In both cases up to `PACKS_IN_FLIGHT_FACTOR` times as many packs may be under way.
//!
//! For example, 64 clients that each PUT objects of 50 KiB share packs of some dozens of bodies, so
//! the backend stores a few objects instead of 64.
//!
//! **The deletion of a pack.** The bodies of a pack are published by separate plans. All of them
//! share the pack's claim. It deletes the block only if no plan that any of them sent can have been
//! committed. It also pins the epoch in which the pack was begun until the outcome of the last plan
//! is known. The reaper waits for all epochs. Without the pin, the reaper could release a member
//! that was overwritten already, and find the pack without owners while another member is about to
//! be published.
//!
//! **Memory.** Each body brings its permit. The permits are given back after the pack has been put
//! and a cache has copied its bytes. Sealing does not copy the bytes.

mod batch_rejoin;
mod queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::{BLOCK_BYTES_MAX, BlockRef, SUB_BLOCK_BYTES};
use bytes::Bytes;
use record::{RingNumber, Slice};
use tokio::sync::oneshot;

use self::batch_rejoin::REJOIN_WINDOW;
pub(crate) use self::queue::PackedBody;
pub use self::queue::Packing;
use self::queue::{Member, Queue};
use crate::claim::Claim;
use crate::put::put;
use crate::staging::Staging;
use crate::{ContentError, Permit};

/// The longest body that is copied into the reader's memory as soon as it is durable. Copying
/// longer bodies does not pay: if the process has to fault in the memory, the copy of 1 MiB costs a
/// seventh of the gateway's work for its PUT. And the longer a body is, the less the first read
/// from the backend adds to the time of sending its bytes.
pub const REMEMBERED_BYTES_MAX: u32 = 256 << 10;

/// If a put of a pack takes longer than this many windows (the waits for further bodies), bodies no
/// longer wait for it to end.
const SLOW_PUT_WINDOWS: u32 = 10;

/// The small bodies of a session that wait to share a block, a pack.
#[derive(Debug)]
pub struct Packer {
    staging: Arc<Staging>,
    packing: Packing,
    /// The ring key under which the packs are encrypted.
    ring: Option<RingNumber>,
    queue: Mutex<Queue>,
    /// The packers of encrypted bodies, one for each ring key, the last used one at the end. Bodies
    /// under different ring keys never share a block.
    under_rings: Mutex<Vec<Arc<Packer>>>,
}

/// The most ring keys whose bodies share blocks at the same time. A body under a further key gets a
/// block of its own.
pub const RING_PACKERS_MAX: usize = 4;

impl Packer {
    /// Creates a packer, which collects small bodies into shared blocks. It has no bodies yet and
    /// puts its blocks by way of `staging`.
    pub fn new(staging: &Arc<Staging>, packing: Packing) -> Packer {
        let packing = Packing {
            pack_bytes: packing.pack_bytes.clamp(1, BLOCK_BYTES_MAX),
            packs_in_flight: packing.packs_in_flight.max(1),
            ..packing
        };
        Packer::of(staging, packing, None)
    }

    fn of(staging: &Arc<Staging>, packing: Packing, ring: Option<RingNumber>) -> Packer {
        let (queue, under_rings) = (Mutex::new(Queue::new()), Mutex::default());
        Packer { staging: Arc::clone(staging), packing, ring, queue, under_rings }
    }

    /// Returns the packer of the bodies that are encrypted under this ring key.
    pub(crate) fn under(&self, ring: RingNumber) -> Arc<Packer> {
        let mut packers = self.under_rings.lock().unwrap_or_else(PoisonError::into_inner);
        let packer = match packers.iter().position(|packer| packer.ring == Some(ring)) {
            Some(index) => packers.remove(index),
            None => Arc::new(Packer::of(&self.staging, self.packing, Some(ring))),
        };
        if packers.len() >= RING_PACKERS_MAX {
            // The bodies that wait in a dropped packer are still put: its tasks hold it.
            match packers.iter().position(|packer| packer.is_idle()) {
                Some(idle) => drop(packers.remove(idle)),
                None => return packer,
            }
        }
        packers.push(Arc::clone(&packer));
        packer
    }

    /// Returns the length of the longest body that shares a block, in bytes.
    pub(crate) fn body_bytes_max(&self) -> u32 {
        self.packing.body_bytes_max.min(self.packing.pack_bytes)
    }

    /// Returns true if no body waits to share a block and no pack (shared block) is being put.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.queue();
        queue.packs == 0 && queue.waiting.is_empty()
    }

    /// Each method leaves the queue consistent before it can panic, so a poisoned lock is still
    /// usable.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a verified body into a block, together with others if there are any. Returns the body's
/// place in the block when the block is durable. `permit` is the body's memory, which is given back
/// after the put.
///
/// # Errors
/// Fails with `Full` if the block store has no space, and with `Unavailable` if the block could not
/// be put for another reason.
pub(crate) async fn pack(
    packer: &Arc<Packer>,
    pieces: Vec<Bytes>,
    length: u32,
    permit: Option<Permit>,
) -> Result<PackedBody, ContentError> {
    let (landed, answer) = oneshot::channel();
    {
        let mut queue = packer.queue();
        queue.waiting.push(Member { pieces, length, permit, landed });
        queue.waiting_bytes += u64::from(length);
        let first = queue.waiting.len() == 1;
        if first {
            // The first waiting body opens a window, unless there were no other bodies recently.
            queue.window_passed = queue.recent_bodies <= 1;
        }
        let window = queue.window;
        send_due(packer, &mut queue);
        // `send_due` increments the window if it sent the body. Then no timer is needed.
        if first && queue.window == window {
            let Packing { window: wait, window_per_mib, .. } = packer.packing;
            open_window(packer, window, wait + window_per_mib.saturating_mul(length) / (1 << 20));
        }
    }
    answer.await.unwrap_or_else(|_| {
        Err(ContentError::Unavailable("the task that puts a pack of small bodies ended".to_owned()))
    })
}

/// Starts the put of every pack (block of several bodies) that is due.
fn send_due(packer: &Arc<Packer>, queue: &mut Queue) {
    while queue.is_due(&packer.packing) {
        let members = queue.take(&packer.packing);
        // The guard decrements the count of packs even if the task panics or is cancelled.
        let under_way = UnderWay { packer: Arc::clone(packer), members: members.len() };
        drop(packer.staging.tasks.spawn("put pack", send(under_way, members)));
    }
}

/// Starts the timers of a window, the time in which bodies wait to share a block. After `wait`, the
/// bodies have waited long enough for others. After [`SLOW_PUT_WINDOWS`] times as long, they have
/// waited long enough for the backend. The timers do nothing once another window has been opened.
fn open_window(packer: &Arc<Packer>, window: u64, wait: Duration) {
    let packer = Arc::clone(packer);
    let tasks = packer.staging.tasks.clone();
    drop(tasks.spawn("pack window", async move {
        for (wait, overdue) in [(wait, false), (wait * (SLOW_PUT_WINDOWS - 1), true)] {
            tokio::time::sleep(wait).await;
            let mut queue = packer.queue();
            if queue.window != window {
                return;
            }
            queue.window_passed = true;
            queue.overdue = overdue;
            send_due(&packer, &mut queue);
        }
    }));
}

/// Handles the end of the put of a pack (shared block) with `landed` bodies. It sends the bodies
/// that gathered meanwhile, or lets them wait for the next bodies of the same clients if that is
/// expected to pay.
fn send_after_landing(packer: &Arc<Packer>, queue: &mut Queue, landed: usize) {
    let nothing_to_join = queue.packs > 0 || queue.waiting.is_empty();
    if nothing_to_join || !queue.rejoin.is_due() {
        // They waited while the pack was under way. That is long enough.
        queue.window_passed = true;
        return send_due(packer, queue);
    }
    // Expected are the bodies that wait, and one more from each client of the landed pack.
    queue.recent_bodies = queue.waiting.len() + landed;
    queue.window_passed = false;
    queue.overdue = false;
    queue.window += 1;
    let window = queue.window;
    // A full pack does not wait for the window.
    send_due(packer, queue);
    if queue.window == window {
        open_window(packer, window, REJOIN_WINDOW);
    }
}

/// A pack (block of several bodies) that is being put. Dropping it, however the put ended, allows
/// the next pack.
struct UnderWay {
    packer: Arc<Packer>,
    members: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut queue = self.packer.queue();
        queue.packs -= 1;
        queue.members -= self.members;
        send_after_landing(&self.packer, &mut queue, self.members);
    }
}

/// Seals the bodies into one block, puts it, and answers each body with its slice of the block.
async fn send(under_way: UnderWay, members: Vec<Member>) {
    let staging = Arc::clone(&under_way.packer.staging);
    // A single body needs neither a pack's id nor a pin, because no other plan references its
    // block.
    let several = members.len() > 1;
    let claim = if several { Claim::pinned(&staging) } else { Claim::new(Arc::clone(&staging)) };
    let (ring, length) = (under_way.packer.ring, members.iter().map(|member| member.length).sum());
    let mut sealer =
        if several { staging.pack_sealer(ring, length) } else { staging.sealer(ring, length) };
    let mut waiting = Vec::with_capacity(members.len());
    let mut permits = Vec::with_capacity(members.len());
    let mut small = Vec::with_capacity(members.len());
    for Member { pieces, length, permit, landed } in members {
        let offset = sealer.len();
        pieces.into_iter().for_each(|piece| sealer.push(piece));
        permits.push(permit);
        if length <= REMEMBERED_BYTES_MAX {
            small.push(offset..offset + length);
        }
        waiting.push((offset, length, landed));
        tokio::task::consume_budget().await;
    }
    let put = put(&staging, &claim, sealer.finish(), None).await;
    if several && put.is_ok() {
        staging.traffic.packs.add(1);
    }
    // Dropping it allows the next pack. It is dropped before the answers, so that the bodies that
    // wait are sent first. The next bodies of these clients go into a later pack.
    drop(under_way);
    for (offset, length, landed) in waiting {
        let answer = match put.as_ref().map(|(block, _)| block.reference()) {
            Ok(BlockRef { id: block, length: block_length, crc32c: block_crc32c }) => {
                let slice =
                    Slice { position: 0, block, block_length, block_crc32c, offset, length };
                Ok(PackedBody { slice, claim: Arc::clone(&claim) })
            }
            Err(error) => Err(error.clone()),
        };
        // If a client has disconnected meanwhile, its bytes remain in the pack as dead bytes.
        drop(landed.send(answer));
    }
    drop(claim);
    // Small new objects are likely to be read soon, so their sub-blocks go into the reader's
    // memory. This is done after the answers, because no client waits for it.
    if let Ok((block, _)) = &put {
        let is_small = |index: u32| {
            let (start, end) = (index * SUB_BLOCK_BYTES, (index + 1) * SUB_BLOCK_BYTES);
            small.iter().any(|body| body.start < end && body.end > start)
        };
        for sub_block in block.sub_blocks().filter(|sub_block| is_small(sub_block.index)) {
            staging.reader.remember(block.id(), &sub_block);
            tokio::task::consume_budget().await;
        }
    }
    drop(permits);
}
