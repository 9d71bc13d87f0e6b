//! Small bodies that share a block.
//!
//! A backend charges for every object. So bodies that are verified at about the same time are put
//! together, one behind the other in one block: a *pack*. A body that has nobody to share with is
//! put at once, in an ordinary block. Each body is answered when its block is durable.
//!
//! **When a pack is sent.** Verified bodies wait in a queue. Three things may make them due: one
//! more body arrives, a timer fires, or a pack lands. Each time [`Queue::is_due`] decides:
//!
//! 1. *The usual way.* While [`Packing::packs_in_flight`] packs are under way, bodies wait.
//!    Otherwise they are sent when their window has passed, or sooner, when as many have gathered
//!    as there were lately. The window is [`Packing::window`] and about as long as the body's own
//!    put would take. With one client there were no others lately, so its bodies do not wait.
//! 2. *After a landing.* Bodies that gathered while a pack was under way are sent when it lands. Or
//!    they wait a little longer for the next bodies of the clients whose pack that was: see
//!    [`batch_rejoin`].
//! 3. *Beside another pack.* When as many bodies have gathered as are under way, and the others are
//!    not likely to be back soon, one pack more is sent. It costs each of its bodies no more.
//! 4. *Full, or overdue.* A full pack gains nothing by waiting. And when the backend takes
//!    [`SLOW_PUT_WINDOWS`] times as long as the window, waiting for it costs more than it saves.
//!    Then up to `PACKS_IN_FLIGHT_FACTOR` times as many packs may be under way.
//!
//! **Who may delete a pack.** Its members are published by plans of their own. The pack's claim is
//! shared by all of them: it deletes the block only if no plan that any of them sent may have been
//! committed. And it pins the epoch that it began in until the outcome of the last plan is known.
//! The reaper waits for all epochs. Without the pin it could let go of a member that was
//! overwritten already, and find the pack without owners while another member is about to be
//! published.
//!
//! **Memory.** Bodies bring their permits. They are given back when the pack has been put and a
//! cache has taken its copy. Sealing copies none of the bytes.

mod batch_rejoin;
mod queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::{BLOCK_BYTES_MAX, BlockRef, SUB_BLOCK_BYTES, Sealer};
use bytes::Bytes;
use record::Slice;
use tokio::sync::oneshot;

use self::batch_rejoin::REJOIN_WINDOW;
pub(crate) use self::queue::Landed;
pub use self::queue::Packing;
use self::queue::{Member, Queue};
use crate::claim::Claim;
use crate::put::put;
use crate::staging::Staging;
use crate::{ContentError, Permit};

/// Bodies of at most so many bytes are put into the reader's memory as soon as they are durable.
/// For longer ones that is not worth it: where memory is new to the process, the copy of 1 MiB
/// costs a seventh of what the gateway does for its PUT. And the longer a body is, the less the
/// first read from the backend adds to sending its bytes.
pub const REMEMBERED_BYTES_MAX: u32 = 256 << 10;

/// After how many windows bodies wait no longer for a pack to land.
const SLOW_PUT_WINDOWS: u32 = 10;

/// The bodies of a session that wait for a block.
#[derive(Debug)]
pub struct Packer {
    staging: Arc<Staging>,
    packing: Packing,
    queue: Mutex<Queue>,
}

impl Packer {
    /// Packs what is put by way of `staging`. No body waits yet.
    pub fn new(staging: &Arc<Staging>, packing: Packing) -> Packer {
        let packing = Packing {
            pack_bytes: packing.pack_bytes.clamp(1, BLOCK_BYTES_MAX),
            packs_in_flight: packing.packs_in_flight.max(1),
            ..packing
        };
        Packer { staging: Arc::clone(staging), packing, queue: Mutex::new(Queue::new()) }
    }

    /// The longest body that is packed.
    pub(crate) fn body_bytes_max(&self) -> u32 {
        self.packing.body_bytes_max.min(self.packing.pack_bytes)
    }

    /// Whether no body is packed, or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.queue();
        queue.packs == 0 && queue.waiting.is_empty()
    }

    /// Every change leaves the queue whole, so a panic elsewhere leaves it usable.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a verified body into a block, with others if there are any. Returns when the block is
/// durable.
///
/// # Errors
/// `Unavailable` if the block could not be put.
pub(crate) async fn pack(
    packer: &Arc<Packer>,
    pieces: Vec<Bytes>,
    length: u32,
    permit: Option<Permit>,
) -> Result<Landed, ContentError> {
    let (landed, answer) = oneshot::channel();
    {
        let mut queue = packer.queue();
        queue.waiting.push(Member { pieces, length, permit, landed });
        queue.waiting_bytes += u64::from(length);
        let first = queue.waiting.len() == 1;
        if first {
            // The first body that waits opens a window, unless there were no others lately.
            queue.window_passed = queue.recent_bodies <= 1;
        }
        let window = queue.window;
        send_due(packer, &mut queue);
        // Not if the body was sent: then there is nothing to wait for.
        if first && queue.window == window {
            let Packing { window: wait, window_per_mib, .. } = packer.packing;
            open_window(packer, window, wait + window_per_mib.saturating_mul(length) / (1 << 20));
        }
    }
    answer.await.unwrap_or_else(|_| {
        Err(ContentError::Unavailable("the block of small bodies was not put".to_owned()))
    })
}

/// Sends every pack that is due.
fn send_due(packer: &Arc<Packer>, queue: &mut Queue) {
    while queue.is_due(&packer.packing) {
        let members = queue.take(&packer.packing);
        let under_way = UnderWay { packer: Arc::clone(packer), members: members.len() };
        drop(packer.staging.tasks.spawn("put pack", send(under_way, members)));
    }
}

/// Starts the timers of a window. After `wait` the bodies have waited long enough for others, and
/// after [`SLOW_PUT_WINDOWS`] times as long they have waited long enough for the backend. Both
/// timers do nothing once another window has been opened.
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

/// After a pack of `landed` bodies has ended: sends the bodies that have gathered meanwhile, or
/// lets them wait for the next bodies of the same clients, if that pays.
fn send_after_landing(packer: &Arc<Packer>, queue: &mut Queue, landed: usize) {
    let nothing_to_join = queue.packs > 0 || queue.waiting.is_empty();
    if nothing_to_join || !queue.rejoin.is_due() {
        // They have waited while the pack was under way, which is long enough.
        queue.window_passed = true;
        return send_due(packer, queue);
    }
    queue.recent_bodies = queue.waiting.len() + landed;
    queue.window_passed = false;
    queue.overdue = false;
    queue.window += 1;
    let window = queue.window;
    // A full pack does not wait.
    send_due(packer, queue);
    if queue.window == window {
        open_window(packer, window, REJOIN_WINDOW);
    }
}

/// A pack under way. However it ends, it makes room for the next one when it is dropped.
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

/// Seals the bodies into one block, puts it, and answers each with where it lies.
async fn send(under_way: UnderWay, members: Vec<Member>) {
    let staging = Arc::clone(&under_way.packer.staging);
    let several = members.len() > 1;
    let claim = if several { Claim::pinned(&staging) } else { Claim::new(Arc::clone(&staging)) };
    let id = if several { staging.ids.draw_pack() } else { staging.ids.draw() };
    let mut sealer = Sealer::new(id, members.iter().map(|member| member.length).sum());
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
    let put = put(&staging, &claim, sealer.finish()).await;
    if several && put.is_ok() {
        staging.traffic.packs.add(1);
    }
    // The next pack may be sent before these bodies are answered.
    drop(under_way);
    for (offset, length, landed) in waiting {
        let answer = match put.as_ref().map(|(block, _)| block.reference()) {
            Ok(BlockRef { id: block, length: block_length, crc32c: block_crc32c }) => {
                let slice =
                    Slice { position: 0, block, block_length, block_crc32c, offset, length };
                Ok(Landed { slice, claim: Arc::clone(&claim) })
            }
            Err(error) => Err(error.clone()),
        };
        // A client that has gone away meanwhile leaves dead bytes in the pack.
        drop(landed.send(answer));
    }
    drop(claim);
    // What is small and new is likely to be read soon.
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
