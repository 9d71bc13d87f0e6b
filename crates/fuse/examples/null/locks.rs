//! Locks of fcntl(2) and flock(2), and their waiters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuse::{Errno, FileLock, LockKind, LockOwner, LockRequest, NodeId, Reply};

/// The locks of the mount.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<NodeId, NodeLocks>>);

#[derive(Debug, Default)]
struct NodeLocks {
    held: Vec<LockRequest>,
    waiting: Vec<(LockRequest, Reply)>,
}

impl NodeLocks {
    fn obstacle(&self, asked: &LockRequest) -> Option<FileLock> {
        let conflicts = |held: &&LockRequest| {
            held.flock == asked.flock
                && held.owner != asked.owner
                && overlap(&held.lock, &asked.lock)
                && (held.lock.kind == LockKind::Exclusive || asked.lock.kind == LockKind::Exclusive)
        };
        if asked.lock.kind == LockKind::Unlocked {
            return None;
        }
        self.held.iter().find(conflicts).map(|held| held.lock)
    }

    /// Replaces the owner's locks on the range.
    fn put(&mut self, asked: LockRequest) {
        let mut after = Vec::with_capacity(self.held.len() + 2);
        for held in self.held.drain(..) {
            let same = held.owner == asked.owner && held.flock == asked.flock;
            if !same || !overlap(&held.lock, &asked.lock) {
                after.push(held);
                continue;
            }
            if held.lock.start < asked.lock.start {
                let lock = FileLock { end: asked.lock.start - 1, ..held.lock };
                after.push(LockRequest { lock, ..held });
            }
            if held.lock.end > asked.lock.end {
                let lock = FileLock { start: asked.lock.end + 1, ..held.lock };
                after.push(LockRequest { lock, ..held });
            }
        }
        if asked.lock.kind != LockKind::Unlocked {
            after.push(asked);
        }
        self.held = after;
    }

    /// Grants free locks, in order of arrival.
    fn grant(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() {
            if self.obstacle(&self.waiting[index].0).is_some() {
                index += 1;
                continue;
            }
            let (question, reply) = self.waiting.remove(index);
            self.put(question);
            reply.ok();
        }
    }
}

fn overlap(one: &FileLock, other: &FileLock) -> bool {
    one.start <= other.end && other.start <= one.end
}

impl Locks {
    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, NodeLocks>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, node: NodeId, asked: &LockRequest, reply: Reply) {
        let obstacle = self.lock().entry(node).or_default().obstacle(asked);
        let free = FileLock { kind: LockKind::Unlocked, ..asked.lock };
        reply.lock(&obstacle.unwrap_or(free));
    }

    pub(crate) fn set(&self, node: NodeId, asked: LockRequest, reply: Reply) {
        let mut table = self.lock();
        let locks = table.entry(node).or_default();
        if locks.obstacle(&asked).is_some() {
            return reply.error(Errno::EAGAIN);
        }
        locks.put(asked);
        locks.grant();
        reply.ok();
    }

    pub(crate) fn set_and_wait(self: &Arc<Locks>, node: NodeId, asked: LockRequest, reply: Reply) {
        let gave_up = Arc::new(AtomicBool::new(false));
        let (unique, locks) = (reply.unique(), Arc::clone(self));
        let interrupted = Arc::clone(&gave_up);
        reply.on_interrupt(move || {
            interrupted.store(true, Ordering::SeqCst);
            locks.give_up(node, unique);
        });
        let mut table = self.lock();
        let locks = table.entry(node).or_default();
        if locks.obstacle(&asked).is_none() {
            locks.put(asked);
            locks.grant();
            reply.ok();
        } else if gave_up.load(Ordering::SeqCst) {
            reply.error(Errno::EINTR);
        } else {
            locks.waiting.push((asked, reply));
        }
    }

    fn give_up(&self, node: NodeId, unique: u64) {
        let mut table = self.lock();
        let locks = table.entry(node).or_default();
        let place = locks.waiting.iter().position(|(_, reply)| reply.unique() == unique);
        if let Some(place) = place {
            locks.waiting.remove(place).1.error(Errno::EINTR);
        }
    }

    /// Releases all locks of an owner on a node.
    pub(crate) fn release(&self, node: NodeId, owner: LockOwner, flock: bool) {
        let mut table = self.lock();
        if let Some(locks) = table.get_mut(&node) {
            locks.held.retain(|held| held.owner != owner || held.flock != flock);
            locks.grant();
            if locks.held.is_empty() && locks.waiting.is_empty() {
                table.remove(&node);
            }
        }
    }
}
