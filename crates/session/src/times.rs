//! The times of sessions that depend on each other, with their inequalities.
//!
//! A change of one of these times that breaks an inequality does not compile. For example, a
//! session may answer reads from its cache for [`AUTHORITY_DURATION`] without asking the store, so
//! a new session must wait longer than that before its first change: [`JOIN_PATIENCE`].

use std::time::Duration;

/// Time for which a session is authoritative (may answer reads from its cache) after it asked the
/// store and learned of no other session, or asked a peer and got a lease.
pub const AUTHORITY_DURATION: Duration = Duration::from_millis(500);

/// Time that a new session waits before its first change if there are other sessions: at least
/// twice the time for which they may still answer reads from their caches.
pub const JOIN_PATIENCE: Duration = Duration::from_secs(1);

/// Time for which a session promises notice to a peer, before it sends batches to the store: at
/// least twice the time for which the peer relies on it, which is [`AUTHORITY_DURATION`].
pub const LEASE_PROMISE: Duration = Duration::from_secs(1);

/// Time for which a peer gets no lease after it did not acknowledge a notice before the promise
/// ended, unless it acknowledges one meanwhile. A peer that never acknowledges delays one batch in
/// this time, by at most [`LEASE_PROMISE`].
pub(crate) const SILENCE_DURATION: Duration = Duration::from_secs(10);

/// Interval at which a session asks its peers to extend their leases, while reads gain from them.
pub const LEASE_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which the store is asked for changes.
pub const FEED_INTERVAL: Duration = Duration::from_millis(100);

/// Time for which data may be cached while the session has peers, with
/// [`crate::Coherence::Pushed`]. Changes of peers invalidate it earlier, most of them within
/// [`FEED_INTERVAL`].
pub const PUSHED_CACHE_DURATION: Duration = Duration::from_secs(1);

/// Default interval between two heartbeats.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// Default time without a heartbeat after which other sessions end a session.
pub const SESSION_SILENCE: Duration = Duration::from_secs(30);

/// Time limit of one metadata read of an operation.
pub const META_READ_DEADLINE: Duration = Duration::from_secs(10);

/// Time from the call until a caller gets an answer, also if the outcome is still unknown. Only a
/// watch waits longer: until its outcome is known.
pub const COMMIT_DEADLINE: Duration = Duration::from_secs(10);

/// Time for which an operation is tried while other writers keep changing its records. Then it
/// fails with [`namespace::FsError::Contended`].
pub const CONTENTION_DEADLINE: Duration = Duration::from_secs(30);

/// Time for which other operations of the process wait for one that tries again, from when it is at
/// the front of the queue: see [`crate::Tries`].
pub const TURN_DURATION: Duration = Duration::from_secs(1);

/// Time for which an operation of a [`crate::ShortSession`] is tried while other writers keep
/// changing its records.
pub const SHORT_CONTENTION_DEADLINE: Duration = Duration::from_secs(10);

/// Time limit for each of the two waits of [`crate::Session::close`]: for the heartbeat, and for
/// running tasks.
pub const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// Time for which a reader pins its epoch, which delays all deletions, before a hold on its file
/// takes the pin's place.
pub const HOLD_AFTER: Duration = Duration::from_secs(5);

/// Returns a time in milliseconds, because `Duration` cannot be compared in a constant.
const fn ms(time: Duration) -> u128 {
    time.as_millis()
}

// No clocks are compared, but a second of one machine must be shorter than two of another.
const _: () = assert!(2 * ms(AUTHORITY_DURATION) <= ms(JOIN_PATIENCE));

// A lease ends before the promise that it rests on, also if both clocks differ that much.
const _: () = assert!(2 * ms(AUTHORITY_DURATION) <= ms(LEASE_PROMISE));

// A new process of a session waits until the promises of the process before it have ended.
const _: () = assert!(ms(LEASE_PROMISE) <= ms(JOIN_PATIENCE));

// A peer that asks and never acknowledges takes at most a tenth of a writer's time.
const _: () = assert!(10 * ms(LEASE_PROMISE) <= ms(SILENCE_DURATION));

// A few late answers of a peer do not end the authority.
const _: () = assert!(4 * ms(LEASE_INTERVAL) < ms(AUTHORITY_DURATION));

// Each answer of the feed extends the authority. A few late answers do not end it.
const _: () = assert!(4 * ms(FEED_INTERVAL) < ms(AUTHORITY_DURATION));

// The feed invalidates pushed caches before they expire, also if some of its answers are late.
const _: () = assert!(4 * ms(FEED_INTERVAL) < ms(PUSHED_CACHE_DURATION));

// The slowest possible beat still arrives before the other sessions end this one.
const _: () = assert!(
    ms(HEARTBEAT_INTERVAL) + ms(META_READ_DEADLINE) + ms(COMMIT_DEADLINE) <= ms(SESSION_SILENCE)
);

// An operation whose first commit was slow and refused can still commit once more.
const _: () = assert!(2 * ms(COMMIT_DEADLINE) <= ms(CONTENTION_DEADLINE));

// An operation behind a turn that hangs can still commit.
const _: () = assert!(2 * ms(TURN_DURATION) + ms(COMMIT_DEADLINE) < ms(CONTENTION_DEADLINE));

// The plans in flight at a close are settled: their callers wait for two deadlines at most.
const _: () = assert!(2 * ms(COMMIT_DEADLINE) <= ms(CLOSE_PATIENCE));

// A reader takes its hold while its session still lives, so its blocks are never unprotected.
const _: () = assert!(ms(HOLD_AFTER) + ms(COMMIT_DEADLINE) < ms(SESSION_SILENCE));

// A short session, which has no heartbeat, has made its change before another session ends it.
const _: () = assert!(
    ms(JOIN_PATIENCE) + ms(SHORT_CONTENTION_DEADLINE) + ms(COMMIT_DEADLINE) < ms(SESSION_SILENCE)
);
