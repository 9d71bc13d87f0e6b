//! Small bodies that share a block.
//!
//! A backend charges for every object, so bodies that are verified at about the same time leave
//! together, one behind the other in one block: a *pack*. A body that is alone leaves alone, at
//! once, in an ordinary block. Each body is answered when its block is durable.
//!
//! **How long a body waits.** While [`Packing::packs_in_flight`] packs are under way, what arrives
//! gathers; when one has landed, what has gathered leaves, at once or together with those whose pack
//! that was (see [`reunion`]). Otherwise a body waits only for company that was there a moment ago,
//! and for it no longer than [`Packing::window`] and about as long as its own put would take: with one
//! client there is none. Where as many have gathered as are under way, and those are not likely to be
//! back soon, one more pack leaves beside theirs: it costs each of its bodies no more. A pack that is
//! full, or a backend that takes [`SLOW_PUT_WINDOWS`] times as long, is not waited for: up to
//! `MORE_PACKS_FACTOR` times as many packs are under way then.
//!
//! **Who may delete a pack.** Its members are published by plans of their own. The pack's claim is
//! shared by all of them: it deletes the block only if no plan that any of them sent may have been
//! committed. And it pins the epoch that it began in until the last member has settled, so that
//! the reaper, which waits for all epochs, cannot let go of a member that was overwritten already
//! while another is about to be published; else it might find the pack without owners.
//!
//! **Memory.** Bodies bring their permits, which are given back when the pack has been put, and a
//! cache has taken its copy. Sealing copies none of them.

mod queue;
mod reunion;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::{BLOCK_BYTES_MAX, BlockRef, SUB_BLOCK_BYTES, Sealer};
use bytes::Bytes;
use record::Slice;
use tokio::sync::oneshot;

pub(crate) use self::queue::Landed;
pub use self::queue::Packing;
use self::queue::{Member, Queue};
use self::reunion::REUNION_WINDOW;
use crate::claim::Claim;
use crate::put::put;
use crate::staging::Staging;
use crate::{ContentError, Permit};

/// Bodies of at most so many bytes are in the reader's memory as soon as they are durable. Where
/// that memory is new to the process, a copy costs a seventh of what the gateway does for a PUT of
/// 1 MiB, and the longer a body is, the less its first read from the backend costs beside its bytes.
pub const REMEMBERED_BYTES_MAX: u32 = 256 << 10;

/// After how many windows those who wait for a pack to land wait no longer.
const SLOW_PUT_WINDOWS: u32 = 10;

/// The bodies of a session that wait for a block.
#[derive(Debug)]
pub struct Packer {
    staging: Arc<Staging>,
    packing: Packing,
    queue: Mutex<Queue>,
}

impl Packer {
    /// Packs what is put by way of `staging`. Nobody waits yet.
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

/// Puts a verified body into a block, with others if there are any.
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
            // A window opens with the first who waits, unless there is nobody to wait for.
            queue.patient = queue.company <= 1;
        }
        let window = queue.window;
        send_due(packer, &mut queue);
        if first && queue.window == window {
            let Packing { window: wait, window_per_mib, .. } = packer.packing;
            open_window(packer, window, wait + window_per_mib.saturating_mul(length) / (1 << 20));
        }
    }
    answer.await.unwrap_or_else(|_| {
        Err(ContentError::Unavailable("the block of small bodies was not put".to_owned()))
    })
}

/// Sends what should leave now.
fn send_due(packer: &Arc<Packer>, queue: &mut Queue) {
    while queue.is_due(&packer.packing) {
        let members = queue.take(&packer.packing);
        let under_way = UnderWay { packer: Arc::clone(packer), members: members.len() };
        drop(packer.staging.tasks.spawn("put pack", send(under_way, members)));
    }
}

/// When the window has passed, those who wait have waited long enough for company, and when several
/// have, long enough for the backend.
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
            queue.patient = true;
            queue.overdue = overdue;
            send_due(&packer, &mut queue);
        }
    }));
}

/// After a pack has landed: lets those who have gathered wait for its members, if that pays.
fn await_reunion(packer: &Arc<Packer>, queue: &mut Queue, landed: usize) {
    let alone = queue.packs > 0 || queue.waiting.is_empty();
    if alone || !queue.reunions.is_due() {
        // They have waited for as long as a put takes.
        queue.patient = true;
        return send_due(packer, queue);
    }
    queue.company = queue.waiting.len() + landed;
    queue.patient = false;
    queue.overdue = false;
    queue.window += 1;
    let window = queue.window;
    send_due(packer, queue);
    if queue.window == window {
        open_window(packer, window, REUNION_WINDOW);
    }
}

/// A pack under way. However it ends, the next one may leave then.
struct UnderWay {
    packer: Arc<Packer>,
    members: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut queue = self.packer.queue();
        queue.packs -= 1;
        queue.members -= self.members;
        await_reunion(&self.packer, &mut queue, self.members);
    }
}

/// Seals the bodies into one block, puts it, and tells each where it lies.
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
    drop(under_way);
    for (offset, length, landed) in waiting {
        let answer = match put.as_ref().map(|(block, _)| block.reference()) {
            Ok(BlockRef { id: block, length: block_length, crc32c: block_crc32c }) => {
                let slice =
                    Slice { position: 0, block, block_length, block_crc32c, offset, length };
                Ok(Landed { slice, claim: Arc::clone(&claim) })
            }
            Err(error) => Err(ContentError::Unavailable(error.to_string())),
        };
        // Who has gone away meanwhile leaves dead bytes in the pack.
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
