//! Opening a session: first its records in the store, then its tasks in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use block::BlockStore;
use runtime::Tasks;
use store::MetaStore;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cached_store::CachedStore;
use crate::coalesce::ReadCoalescer;
use crate::commit::{CommitContext, Committer, Operations};
use crate::epoch::Epochs;
use crate::error::VolumeError;
use crate::feed::Listener;
use crate::holding::maintain_holds;
use crate::holds::Holds;
use crate::inode_allocator::InodeAllocator;
use crate::leases::Leases;
use crate::lock_notices::LockNotices;
use crate::options::SessionOptions;
use crate::peers::{self, Peers};
use crate::random_bits::RandomBits;
use crate::records::RecordCache;
use crate::session::Session;
use crate::slots::IdempotencySlots;
use crate::state::{self, Heartbeat, OpenSettings, Resumed, SessionState};
use crate::throttle::Throttle;
use crate::watch::Watches;

impl Session {
    /// Opens the volume in `store`, or creates it if there is none and `options` allow that, and
    /// begins a session. Checks that the block location has the mark of the volume, and writes the
    /// mark for a new volume. `block_bytes`, the content of a full block, is used only for a new
    /// volume.
    ///
    /// # Errors
    /// The text is for the operator. Fails if a store cannot be reached or read, if a newer release
    /// created the volume, if there is no volume and none may be created, if the block location has
    /// the mark of another volume, or if it lacks a mark that was set before. Unless a store failed
    /// on the way, nothing was changed.
    pub async fn open(
        options: SessionOptions,
        block_bytes: u32,
        store: Arc<dyn MetaStore>,
        blocks: &dyn BlockStore,
    ) -> Result<Arc<Session>, VolumeError> {
        let now = options.clock.now();
        let settings = OpenSettings {
            creates: options.creates_volume,
            adopts: options.adopts_blocks,
            block_bytes,
            now,
        };
        let volume = state::find_volume(&*store, blocks, settings).await?;
        // A resumed session keeps its name, so open files and locks of the previous process stay
        // valid.
        let resumed = match &options.ledger {
            Some(ledger) => state::resume(&*store, ledger, &volume).await?,
            None => None,
        };
        let resumed = match resumed {
            Some(resumed) => {
                state::note_facts(&*store, resumed.started.nonce, &options).await?;
                // The previous process may have promised notice of changes to peers, and this one
                // does not know of it.
                peers::join(&*store, resumed.started.nonce, options.join_patience).await?;
                resumed
            }
            None => {
                let started =
                    state::start(&*store, volume, (&options.place, &options.facts), now).await?;
                // The ledger names the session before its first change, so that a crash in between
                // leaves a session that can be resumed.
                state::note_session(options.ledger.as_ref(), started.nonce)?;
                // Other sessions may be authoritative until they learn of this one.
                if !options.sole {
                    peers::join(&*store, started.nonce, options.join_patience).await?;
                }
                Resumed { started, slots: Vec::new(), holds: HashMap::new(), reuses_session: false }
            }
        };
        // The position of the feed is taken before the first read: every record that is read from
        // here on is covered by notifications.
        let position = Listener::begin(&*store).await?;
        let (mut session, heartbeat) = Session::assemble(&options, store, resumed);
        if options.sole {
            heartbeat.end_others().await?;
        }
        let heartbeat = session.tasks.spawn("heartbeat", heartbeat.run(session.closing.clone()));
        *session.heartbeat.get_mut() = Some(heartbeat);
        let listening = session.listener(position).run(session.closing.clone());
        drop(session.tasks.spawn("listener", listening));
        let session = Arc::new(session);
        let holding = maintain_holds(Arc::downgrade(&session));
        drop(session.tasks.spawn("holds", holding));
        Ok(session)
    }

    /// Creates the parts of a session whose records are in the store already, and the task of its
    /// heartbeat (its sign of life to other sessions), which has not started yet.
    pub(crate) fn assemble(
        options: &SessionOptions,
        store: Arc<dyn MetaStore>,
        resumed: Resumed,
    ) -> (Session, Heartbeat) {
        let Resumed { started, slots, holds, reuses_session } = resumed;
        let (state, epochs) =
            (Arc::new(SessionState::new(started.nonce)), Epochs::new(started.epoch));
        let (tasks, meters, watches) = (Tasks::new(), Arc::default(), Arc::<Watches>::default());
        let records = RecordCache::new(options.record_cache_bytes, options.authoritative_reads);
        // All parts use the store behind the record cache, so that none of them can miss what
        // another one has learned.
        let leases = Leases::new(&records, &watches);
        let cached = CachedStore::new(store, Arc::clone(&records), Arc::clone(&leases));
        let store: Arc<dyn MetaStore> = Arc::new(cached);
        let [closing, gone] = [(); 2].map(|()| CancellationToken::new());
        let slots = IdempotencySlots::resumed(started.nonce, options.ledger.clone(), slots);
        let context = CommitContext {
            store: Arc::clone(&store),
            limits: store.limits(),
            state: Arc::clone(&state),
            slots: Arc::clone(&slots),
            records: Arc::clone(&records),
            leases: Arc::clone(&leases),
            self_writes: Arc::default(),
            meters: Arc::clone(&meters),
            operations: Operations::default(),
            watches: Arc::clone(&watches),
            tasks: tasks.clone(),
            closing: closing.clone(),
            gone: gone.clone(),
        };
        let committer = Committer::new(context);
        let coalescer = ReadCoalescer::new(&store, &meters, &tasks);
        let inode_allocator =
            InodeAllocator::new(started.nonce, &committer, &epochs, &store, tasks.clone());
        let heartbeat = Heartbeat::new(
            &store,
            (&state, &slots),
            &epochs,
            &leases,
            options.heartbeat_interval,
            options.session_silence,
            started.beat,
        );
        let throttle = Throttle::new(&meters, &epochs, &closing);
        // The pin is taken before any operation runs. It is in the epoch that the previous process
        // had passed, so it protects every file that was open there.
        let inherited = options.ledger.as_ref().map(|_| epochs.pin());
        let session = Session {
            store,
            clock: Arc::clone(&options.clock),
            keys: Arc::clone(&options.keys),
            random_bits: RandomBits::default(),
            record: started.volume,
            state,
            committer,
            reservations: Arc::default(),
            coalescer,
            records,
            leases,
            inode_allocator,
            epochs,
            holds: Holds::inherited(holds),
            inherited: Mutex::new(inherited),
            is_resumed: reuses_session,
            throttle,
            watches,
            tasks,
            meters,
            orphaned: Arc::default(),
            // Tasks that clean up after ended sessions wait for one signal, from the heartbeat or
            // the feed.
            sessions: Arc::clone(&heartbeat.session_ended),
            lock_notices: LockNotices::new(options.clock.now()),
            access: watch::Sender::new(0),
            closing,
            gone,
            heartbeat: tokio::sync::Mutex::default(),
        };
        (session, heartbeat)
    }

    /// Creates the listener, which reads the change feed from `position` on.
    fn listener(&self, position: store::Position) -> Listener {
        Listener {
            store: Arc::clone(&self.store),
            state: Arc::clone(&self.state),
            records: Arc::clone(&self.records),
            peers: Peers::new(self.state.nonce, &self.leases),
            self_writes: self.committer.self_writes(),
            meters: Arc::clone(&self.meters),
            watches: Arc::clone(&self.watches),
            access: self.access.clone(),
            sessions: Arc::clone(&self.sessions),
            lock_notices: Arc::clone(&self.lock_notices),
            position,
        }
    }
}
