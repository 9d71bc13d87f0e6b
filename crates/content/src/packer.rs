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
//! [`MORE_PACKS_FACTOR`] times as many packs are under way then.
//!
//! **Who may delete a pack.** Its members are published by plans of their own. The pack's claim is
//! shared by all of them: it deletes the block only if no plan that any of them sent may have been
//! committed. And it pins the epoch that it began in until the last member has settled, so that
//! the reaper, which waits for all epochs, cannot let go of a member that was overwritten already
//! while another is about to be published; else it might find the pack without owners.
//!
//! **Roster.** The bodies of a pack get numbers that follow each other: the files that they become
//! need no records of their shares (see `namespace::join_listed`).
//!
//! **Memory.** Bodies bring their permits, which are given back when the pack has been put, and a
//! cache has taken its copy. Sealing copies none of them.

mod reunion;

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::{BLOCK_BYTES_MAX, BlockRef, SUB_BLOCK_BYTES, Sealer};
use bytes::Bytes;
use record::{Roster, Slice};
use tokio::sync::oneshot;

use self::reunion::{REUNION_WINDOW, Reunions};
use super::staging::{Claim, Listed};
use super::{Permit, Staging, writer};
use crate::ContentError;

/// What is packed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Bodies of more bytes have blocks of their own; 0 packs nothing.
    pub body_bytes_max: u32,
    /// A pack leaves when it has as many bytes.
    pub pack_bytes: u32,
    /// How long a body without bytes would wait for company at most.
    pub window: Duration,
    /// How much longer a body waits for each MiB that it has, which takes long to arrive, too.
    pub window_per_mib: Duration,
    /// Packs under way at the same time. One more may be when it is worth it, and up to four times as
    /// many when they are full or the backend is slow.
    pub packs_in_flight: usize,
}

/// How many times as many packs may be under way when they are full, which gain nothing by waiting,
/// or when the backend is slow.
const MORE_PACKS_FACTOR: usize = 4;

/// Bodies that leave beside a pack under way, at the least: fewer are too dear by themselves while
/// there is a pack to wait for.
const BESIDE_BODIES_MIN: usize = 4;

/// Bodies of at most so many bytes are in the reader's memory as soon as they are durable. Where
/// that memory is new to the process, a copy costs a seventh of what the gateway does for a PUT of
/// 1 MiB, and the longer a body is, the less its first read from the backend costs beside its bytes.
pub const REMEMBERED_BYTES_MAX: u32 = 256 << 10;

/// After how many windows those who wait for a pack to land wait no longer.
const SLOW_PUT_WINDOWS: u32 = 10;

impl Default for Packing {
    fn default() -> Packing {
        Packing {
            body_bytes_max: 1 << 20,
            pack_bytes: 8 << 20,
            window: Duration::from_millis(2),
            window_per_mib: Duration::from_millis(12),
            packs_in_flight: 1,
        }
    }
}

/// A verified body that waits for its block.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pieces: Vec<Bytes>,
    pub(super) length: u32,
    pub(super) permit: Option<Permit>,
    pub(super) landed: oneshot::Sender<Result<Landed, ContentError>>,
}

/// Where a body lies now.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) slice: Slice,
    /// What deletes its block.
    pub(super) claim: Arc<Claim>,
    /// Its place on the block's roster.
    pub(super) listed: Option<Listed>,
}

/// The bodies of a session that wait for a block.
#[derive(Debug)]
pub struct Packer {
    packing: Packing,
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    waiting: Vec<Member>,
    waiting_bytes: u64,
    packs: usize,
    /// Members of the packs under way.
    members: usize,
    /// Members that were waiting or under way when the last pack left.
    company: usize,
    /// Whether those who wait have waited for their window.
    patient: bool,
    /// Whether they have waited for the backend as long as for several windows.
    overdue: bool,
    /// Tells one window from the next.
    window: u64,
    /// Whether it pays to wait for those whose pack has landed.
    reunions: Reunions,
}

impl Packer {
    /// Nobody waits yet.
    pub fn new(packing: Packing) -> Packer {
        let packing = Packing {
            pack_bytes: packing.pack_bytes.clamp(1, BLOCK_BYTES_MAX),
            packs_in_flight: packing.packs_in_flight.max(1),
            ..packing
        };
        let queue = Queue {
            waiting: Vec::new(),
            waiting_bytes: 0,
            packs: 0,
            members: 0,
            company: 1,
            patient: true,
            overdue: false,
            window: 0,
            reunions: Reunions::default(),
        };
        Packer { packing, queue: Mutex::new(queue) }
    }

    /// The longest body that is packed.
    pub(super) fn body_bytes_max(&self) -> u32 {
        self.packing.body_bytes_max.min(self.packing.pack_bytes)
    }

    /// Whether no body is packed, or waits for it.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.queue();
        queue.packs == 0 && queue.waiting.is_empty()
    }

    /// Every change leaves the queue whole, so a panic elsewhere leaves it usable.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Whether what waits should leave now.
    fn is_due(&self, packing: &Packing) -> bool {
        if self.overdue || self.waiting_bytes >= u64::from(packing.pack_bytes) {
            let most = packing.packs_in_flight.saturating_mul(MORE_PACKS_FACTOR);
            return !self.waiting.is_empty() && self.packs < most;
        }
        let expected = self.company.div_ceil(packing.packs_in_flight);
        let usual = !self.waiting.is_empty()
            && self.packs < packing.packs_in_flight
            && (self.patient || self.waiting.len() >= expected);
        usual || self.may_leave_beside(packing)
    }

    /// Whether what waits is worth a pack by itself, beside one under way or before its window has
    /// passed. Where clients are back soon, those who wait and those under way would rather become
    /// one.
    fn may_leave_beside(&self, packing: &Packing) -> bool {
        self.waiting.len() >= self.members.max(BESIDE_BODIES_MIN)
            && self.packs <= packing.packs_in_flight
            && self.reunions.are_in_vain()
    }

    /// The members of the next pack, in the order in which they came.
    fn take(&mut self, packing: &Packing) -> Vec<Member> {
        let mut bytes = 0;
        let fits = |member: &&Member| {
            bytes += u64::from(member.length);
            bytes <= u64::from(packing.pack_bytes)
        };
        let count = self.waiting.iter().take_while(fits).count().max(1);
        let rest = self.waiting.split_off(count.min(self.waiting.len()));
        let members = mem::replace(&mut self.waiting, rest);
        self.waiting_bytes = self.waiting.iter().map(|member| u64::from(member.length)).sum();
        self.company = members.len() + self.waiting.len() + self.members;
        self.packs += 1;
        self.members += members.len();
        self.reunions.ended(!self.patient);
        self.patient = false;
        self.overdue = false;
        self.window += 1;
        members
    }
}

/// Puts a verified body into a block, with others if there are any.
///
/// # Errors
/// `Unavailable` if the block could not be put.
pub(super) async fn pack(
    staging: &Arc<Staging>,
    pieces: Vec<Bytes>,
    length: u32,
    permit: Option<Permit>,
) -> Result<Landed, ContentError> {
    let (landed, answer) = oneshot::channel();
    {
        let mut queue = staging.packer.queue();
        queue.waiting.push(Member { pieces, length, permit, landed });
        queue.waiting_bytes += u64::from(length);
        let first = queue.waiting.len() == 1;
        if first {
            // A window opens with the first who waits, unless there is nobody to wait for.
            queue.patient = queue.company <= 1;
        }
        let window = queue.window;
        send_due(staging, &mut queue);
        if first && queue.window == window {
            let Packing { window: wait, window_per_mib, .. } = staging.packer.packing;
            open_window(staging, window, wait + window_per_mib.saturating_mul(length) / (1 << 20));
        }
    }
    answer.await.unwrap_or_else(|_| {
        Err(ContentError::Unavailable("the block of small bodies was not put".to_owned()))
    })
}

/// Sends what should leave now.
fn send_due(staging: &Arc<Staging>, queue: &mut Queue) {
    while queue.is_due(&staging.packer.packing) {
        let members = queue.take(&staging.packer.packing);
        let under_way = UnderWay { staging: Arc::clone(staging), members: members.len() };
        drop(staging.tasks.spawn("put pack", send(under_way, members)));
    }
}

/// When the window has passed, those who wait have waited long enough for company, and when several
/// have, long enough for the backend.
fn open_window(staging: &Arc<Staging>, window: u64, wait: Duration) {
    let staging = Arc::clone(staging);
    let tasks = staging.tasks.clone();
    drop(tasks.spawn("pack window", async move {
        for (wait, overdue) in [(wait, false), (wait * (SLOW_PUT_WINDOWS - 1), true)] {
            tokio::time::sleep(wait).await;
            let mut queue = staging.packer.queue();
            if queue.window != window {
                return;
            }
            queue.patient = true;
            queue.overdue = overdue;
            send_due(&staging, &mut queue);
        }
    }));
}

/// After a pack has landed: lets those who have gathered wait for its members, if that pays.
fn await_reunion(staging: &Arc<Staging>, queue: &mut Queue, landed: usize) {
    let alone = queue.packs > 0 || queue.waiting.is_empty();
    if alone || !queue.reunions.is_due() {
        // They have waited for as long as a put takes.
        queue.patient = true;
        return send_due(staging, queue);
    }
    queue.company = queue.waiting.len() + landed;
    queue.patient = false;
    queue.overdue = false;
    queue.window += 1;
    let window = queue.window;
    send_due(staging, queue);
    if queue.window == window {
        open_window(staging, window, REUNION_WINDOW);
    }
}

/// A pack under way. However it ends, the next one may leave then.
struct UnderWay {
    staging: Arc<Staging>,
    members: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut queue = self.staging.packer.queue();
        queue.packs -= 1;
        queue.members -= self.members;
        await_reunion(&self.staging, &mut queue, self.members);
    }
}

/// Seals the bodies into one block, puts it, and tells each where it lies.
async fn send(under_way: UnderWay, members: Vec<Member>) {
    let staging = Arc::clone(&under_way.staging);
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
    let put = writer::put(&staging, &claim, sealer.finish()).await;
    let roster = roster(&staging, waiting.len());
    if several && put.is_ok() {
        staging.traffic.packs.add(1);
    }
    drop(under_way);
    for (place, (offset, length, landed)) in waiting.into_iter().enumerate() {
        let answer = match put.as_ref().map(|(block, _)| block.reference()) {
            Ok(BlockRef { id: block, length: block_length, crc32c: block_crc32c }) => {
                let slice =
                    Slice { position: 0, block, block_length, block_crc32c, offset, length };
                let listed =
                    roster.and_then(|roster| roster.get(place).map(|ino| Listed { ino, roster }));
                Ok(Landed { slice, claim: Arc::clone(&claim), listed })
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

/// A roster for a block of so many bodies, if it is a pack. Without one each owner has a share.
fn roster(staging: &Staging, bodies: usize) -> Option<Roster> {
    if !(2..=Roster::FILES_MAX).contains(&bodies) {
        return None;
    }
    Roster::new(Arc::clone(&staging.numbers).at_hand(bodies)?, bodies)
}
