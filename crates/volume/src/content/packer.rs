//! Small bodies that share a block.
//!
//! A backend charges for every object, so bodies that are verified at about the same time leave
//! together, one behind the other in one block: a *pack*. A body that is alone leaves alone, at
//! once, in an ordinary block, or in two halves at the same time if that spares the backend a file
//! (see [`Packing::halves_above`]). Each body is answered when its bytes are durable.
//!
//! **How long a body waits.** While [`Packing::packs_in_flight`] packs are under way, what arrives
//! gathers; when one has landed, what has gathered leaves. Before that a body waits only for company
//! that was there a moment ago, and for it no longer than [`Packing::window`] and about as long as
//! its own put would take: with one client there is none. A pack that is full, or a backend that
//! takes [`SLOW_PUT_WINDOWS`] times as long, is not waited for: up to [`MORE_PACKS_FACTOR`] times as
//! many packs are under way then.
//!
//! **Who may delete a pack.** Its members are published by plans of their own. The pack's claim is
//! shared by all of them: it deletes the block only if no plan that any of them sent may have been
//! committed. And it pins the epoch that it began in until the last member has settled, so that
//! the reaper, which waits for all epochs, cannot let go of a member that was overwritten already
//! while another is about to be published; else it might find the pack without owners.
//!
//! **Memory.** Bodies bring their permits, which are given back when the pack has been put, and a
//! cache has taken its copy. Sealing copies none of them.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::{BLOCK_BYTES_MAX, BlockRef, SealedBlock, Sealer};
use bytes::Bytes;
use futures::future::join_all;
use record::Slice;
use tokio::sync::oneshot;

use super::staging::Claim;
use super::{Permit, Staging, writer};
use crate::VolumeError;

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
    /// Packs under way at the same time.
    pub packs_in_flight: usize,
    /// A longer body that is alone leaves in two blocks, if neither is longer than this: a backend
    /// that keeps small objects in one file with what it knows of them, and others in two, has put
    /// both halves before it would have put the whole.
    pub halves_above: u32,
}

/// MinIO keeps objects of up to 128 KiB, the header and checksums of a sealed block included, in
/// one file. Two such puts of 75 KiB take about 0.7 times as long as one of 150 KiB.
const HALVES_ABOVE_DEFAULT: u32 = 126 << 10;

/// How many times as many packs may be under way when they are full, which gain nothing by waiting,
/// or when the backend is slow.
const MORE_PACKS_FACTOR: usize = 4;

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
            halves_above: HALVES_ABOVE_DEFAULT,
        }
    }
}

/// A verified body that waits for its block.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pieces: Vec<Bytes>,
    pub(super) length: u32,
    pub(super) permit: Option<Permit>,
    pub(super) landed: oneshot::Sender<Result<Landed, VolumeError>>,
}

/// Where a body lies now, in the order of its bytes, and what deletes its blocks.
pub(super) type Landed = (Vec<Slice>, Arc<Claim>);

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
        };
        Packer { packing, queue: Mutex::new(queue) }
    }

    /// The longest body that is packed.
    pub(super) fn body_bytes_max(&self) -> u32 {
        self.packing.body_bytes_max.min(self.packing.pack_bytes)
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
        !self.waiting.is_empty()
            && self.packs < packing.packs_in_flight
            && (self.patient || self.waiting.len() >= expected)
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
) -> Result<Landed, VolumeError> {
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
            open_window(staging, window, length);
        }
    }
    answer.await.unwrap_or_else(|_| {
        Err(VolumeError::Unavailable("the block of small bodies was not put".to_owned()))
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
fn open_window(staging: &Arc<Staging>, window: u64, length: u32) {
    let Packing { window: wait, window_per_mib, .. } = staging.packer.packing;
    let wait = wait + window_per_mib.saturating_mul(length) / (1 << 20);
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
        // Who gathered meanwhile has waited for as long as a put takes.
        queue.patient = true;
        send_due(&self.staging, &mut queue);
    }
}

/// Seals bodies into blocks, puts these, and tells each where it lies.
async fn send(under_way: UnderWay, mut members: Vec<Member>) {
    match members.pop() {
        Some(only) if members.is_empty() => send_alone(under_way, only).await,
        last => send_pack(under_way, members.into_iter().chain(last).collect()).await,
    }
}

/// Several bodies, in one block.
async fn send_pack(under_way: UnderWay, members: Vec<Member>) {
    let staging = Arc::clone(&under_way.staging);
    let claim = Claim::pinned(&staging);
    let bytes = members.iter().map(|member| member.length).sum();
    let mut sealer = Sealer::new(staging.ids.draw_pack(), bytes);
    let mut waiting = Vec::with_capacity(members.len());
    let mut permits = Vec::with_capacity(members.len());
    for Member { pieces, length, permit, landed } in members {
        let offset = sealer.len();
        pieces.into_iter().for_each(|piece| sealer.push(piece));
        permits.push(permit);
        waiting.push((offset, length, landed));
        tokio::task::consume_budget().await;
    }
    let put = writer::put(&staging, &claim, sealer.finish()).await;
    if put.is_ok() {
        staging.traffic.packs.add(1);
    }
    drop(under_way);
    for (offset, length, landed) in waiting {
        let answer = match &put {
            Ok(block) => Ok((vec![slice(block, 0, offset, length)], Arc::clone(&claim))),
            Err(error) => Err(VolumeError::Unavailable(error.to_string())),
        };
        // Who has gone away meanwhile leaves dead bytes in the pack.
        drop(landed.send(answer));
    }
    if let Ok(block) = &put {
        remember(&staging, block).await;
    }
    drop(permits);
}

/// One body, in a block of its own, or in two.
async fn send_alone(under_way: UnderWay, member: Member) {
    let staging = Arc::clone(&under_way.staging);
    let Member { pieces, length, permit, landed } = member;
    let claim = Claim::new(Arc::clone(&staging));
    let most = staging.packer.packing.halves_above;
    let half = length.div_ceil(2);
    let first = if length > most && half <= most { half } else { length };
    let parts = split(pieces, first).into_iter().filter(|part| !part.is_empty());
    let puts = parts.map(|part| writer::put(&staging, &claim, seal(&staging, part)));
    // All of them end, so that nothing is written when the claim deletes it.
    let put: Result<Vec<SealedBlock>, VolumeError> = join_all(puts).await.into_iter().collect();
    drop(under_way);
    let place = |blocks: &Vec<SealedBlock>| {
        let positions = [0, u64::from(first)];
        let slices = positions.into_iter().zip(blocks);
        slices.map(|(position, block)| slice(block, position, 0, block.length())).collect()
    };
    let answer = match &put {
        Ok(blocks) => Ok((place(blocks), Arc::clone(&claim))),
        Err(error) => Err(VolumeError::Unavailable(error.to_string())),
    };
    drop(landed.send(answer));
    for block in put.iter().flatten() {
        remember(&staging, block).await;
    }
    drop(permit);
}

/// Content cut in two, where so many bytes end.
fn split(pieces: Vec<Bytes>, first: u32) -> [Vec<Bytes>; 2] {
    let (mut head, mut tail, mut room) = (Vec::new(), Vec::new(), first as usize);
    for mut piece in pieces {
        let front = piece.split_to(room.min(piece.len()));
        room -= front.len();
        head.extend(Some(front).filter(|it| !it.is_empty()));
        tail.extend(Some(piece).filter(|it| !it.is_empty()));
    }
    [head, tail]
}

/// A block of its own for content that is not empty.
fn seal(staging: &Staging, pieces: Vec<Bytes>) -> SealedBlock {
    let bytes: usize = pieces.iter().map(Bytes::len).sum();
    let capacity = u32::try_from(bytes).unwrap_or(BLOCK_BYTES_MAX);
    let mut sealer = Sealer::new(staging.ids.draw(), capacity);
    pieces.into_iter().for_each(|piece| sealer.push(piece));
    sealer.finish()
}

/// What a record says of a part of a block.
fn slice(block: &SealedBlock, position: u64, offset: u32, length: u32) -> Slice {
    let BlockRef { id: block, length: block_length, crc32c: block_crc32c } = block.reference();
    Slice { position, block, block_length, block_crc32c, offset, length }
}

/// What is small and new is likely to be read soon. Nobody waits for this.
async fn remember(staging: &Staging, block: &SealedBlock) {
    for sub_block in block.sub_blocks() {
        staging.reader.remember(block.id(), &sub_block);
        tokio::task::consume_budget().await;
    }
}
