//! Connections, and the calls to the server.
//!
//! Calls share a few connections, on which requests and answers are pipelined in order. Each call
//! runs in a task of the store, so a caller that goes away does not disturb the others. A
//! connection that has ended, or that did not answer in time, is never used again; the next call
//! makes a new one.
//!
//! A new connection first checks the server (see [`about`]). From time to time one is made in the
//! background only for this check. If the server fails the check, or is another one than before, no
//! older connection is used any more. For example, after a failover to a replica that became
//! master, all connections are made anew. If the URL names Sentinels, these are asked for the
//! address first (see [`sentinel`](crate::sentinel)).
//!
//! No call is sent twice, except if the server does not know its script yet.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisError, Script, Value};
use store::{StoreError, StoreErrorKind};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::RedisOptions;
use crate::about::{self, About, Standing};
use crate::address::{Address, Route};
use crate::append_log::{self, Rewrite};
use crate::error::{self, Effect};
use crate::overflow::{Overflow, Transaction};
use crate::sentinel::Trust;
use crate::sequence::Sequence;

/// Limit of the time to make a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a call waits for a connection.
const LINK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a call waits for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of the checks of the server.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// A request of at least this size, in bytes, uses the last connection, so that small requests do
/// not wait for it.
const LARGE_BYTES: usize = 256 << 10;

/// The scripts and their hashes at the server.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) open: Arc<Script>,
    pub(crate) is_made: Arc<Script>,
    pub(crate) read: Arc<Script>,
    pub(crate) commit: Arc<Script>,
    /// The same script, with the flag that lets it run while the server is out of memory.
    pub(crate) commit_without_memory: Arc<Script>,
    pub(crate) changes: Arc<Script>,
    pub(crate) snapshot: Arc<Script>,
    pub(crate) walk: Arc<Script>,
}

/// The text of `commit.lua`. Its rare parts are in a function, because each call would have to run
/// the prelude otherwise. The function has opcodes of its own, since each variable that it shared
/// with the rest would cost each call something.
macro_rules! commit_script {
    ($first:expr) => {
        Arc::new(Script::new(concat!(
            $first,
            "local function rare()\n",
            include_str!("prelude.lua"),
            include_str!("commit_opcodes.lua"),
            include_str!("commit_rare.lua"),
            "end\n",
            include_str!("commit_opcodes.lua"),
            include_str!("commit.lua"),
        )))
    };
}

macro_rules! script {
    ($file:literal) => {
        script!(with "prelude.lua", $file)
    };
    (with $($file:literal),+) => {
        Arc::new(Script::new(concat!($(include_str!($file)),+)))
    };
}

impl Scripts {
    fn new() -> Scripts {
        Scripts {
            open: script!("open.lua"),
            is_made: script!("is_made.lua"),
            read: script!("read.lua"),
            commit: commit_script!(""),
            commit_without_memory: commit_script!(include_str!("allow_oom.lua")),
            changes: script!("changes.lua"),
            snapshot: script!(with "prelude.lua", "pages.lua", "snapshot.lua"),
            walk: script!(with "prelude.lua", "pages.lua", "walk.lua"),
        }
    }
}

/// A command or transaction to send.
#[derive(Debug)]
enum Request {
    Command(Cmd),
    Transaction(Transaction),
    Sequence(Sequence),
}

impl Request {
    async fn send(&self, connection: &mut MultiplexedConnection) -> Result<Value, RedisError> {
        match self {
            Request::Command(command) => command.query_async(connection).await,
            Request::Transaction(transaction) => transaction.send(connection).await,
            Request::Sequence(sequence) => sequence.send(connection).await,
        }
    }
}

/// Returns the command that runs a script with its arguments, and the bytes of these.
fn command<'a>(
    links: &Links,
    script: &Script,
    arguments: impl IntoIterator<Item = &'a [u8]>,
) -> (Cmd, usize) {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.get_hash()).arg("1").arg(&links.prefix);
    let mut bytes = 0;
    for argument in arguments {
        bytes += argument.len();
        command.arg(argument);
    }
    (command, bytes)
}

/// A call to the server: the request, the script that it needs, and the effect that decides the
/// meaning of errors.
#[derive(Debug)]
pub(crate) struct Call {
    request: Request,
    script: Option<Arc<Script>>,
    bytes: usize,
    doing: &'static str,
    effect: Effect,
    /// The only run of the server, from one start to the next, that can answer this call; `None` if
    /// each run can.
    run: Option<String>,
}

impl Call {
    /// Creates the call of a script with its arguments.
    pub(crate) fn script<'a>(
        links: &Links,
        script: &Arc<Script>,
        arguments: impl IntoIterator<Item = &'a [u8]>,
        doing: &'static str,
    ) -> Call {
        let (command, bytes) = command(links, script, arguments);
        let (request, script) = (Request::Command(command), Some(Arc::clone(script)));
        Call { request, script, bytes, doing, effect: Effect::None, run: None }
    }

    /// Creates the call of a script once for each list of arguments, in one transaction.
    pub(crate) fn sequence<'a, L: IntoIterator<Item = &'a [u8]>>(
        links: &Links,
        script: &Arc<Script>,
        lists: impl IntoIterator<Item = L>,
        doing: &'static str,
    ) -> Call {
        let lists = lists.into_iter().map(|arguments| command(links, script, arguments));
        let (commands, bytes): (Vec<Cmd>, Vec<usize>) = lists.unzip();
        let request = Request::Sequence(Sequence::new(commands, &links.prefix));
        let (script, bytes) = (Some(Arc::clone(script)), bytes.into_iter().sum());
        Call { request, script, bytes, doing, effect: Effect::None, run: None }
    }

    /// Adds overflow values (the rest of long records), which are set if the script commits.
    pub(crate) fn with_overflow(mut self, links: &Links, overflow: &[Overflow<'_>]) -> Call {
        self.bytes += overflow.iter().map(|(_, value)| value.len()).sum::<usize>();
        self.request = match self.request {
            Request::Command(script) if !overflow.is_empty() => {
                Request::Transaction(Transaction::new(script, &links.prefix, overflow))
            }
            request => request,
        };
        self
    }

    /// Marks the call as one that changes the volume, so that a lost answer means an unknown
    /// outcome.
    pub(crate) fn commits(self) -> Call {
        Call { effect: Effect::Commits, ..self }
    }

    /// Marks the call as one that only this run of the server can answer.
    pub(crate) fn in_run(self, run: String) -> Call {
        Call { run: Some(run), ..self }
    }
}

/// A connection, and a flag that shows if it has ended.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
    /// The server's identifier of its present run, from one start to the next.
    run: Arc<str>,
    ended: Arc<AtomicBool>,
    /// Number of failed checks of the server when this connection was made. After another failed
    /// check the connection is not used any more.
    refusals: u64,
    all_refusals: Arc<AtomicU64>,
    /// The trust of the Sentinels in this server; `None` if the URL names the server itself.
    trust: Option<Trust>,
}

impl Link {
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
            && self.refusals == self.all_refusals.load(Ordering::Acquire)
            && self.trust.as_ref().is_none_or(Trust::holds)
    }

    /// Returns true if the Sentinels, if there are any, still name this server. May ask them.
    async fn is_confirmed(&self, doing: &str) -> bool {
        match &self.trust {
            Some(trust) => trust.is_confirmed(doing).await,
            None => true,
        }
    }

    /// Sends a call and waits for its answer.
    pub(crate) async fn call(&self, call: &Call) -> Result<Value, StoreError> {
        let mut connection = self.connection.clone();
        let mut answer = call.request.send(&mut connection).await;
        if let (Err(error), Some(script)) = (&answer, &call.script)
            && error.code() == Some("NOSCRIPT")
        {
            // The server did not know the script, so nothing has happened yet. An error of loading
            // it is definite.
            let loaded = script.load_async(&mut connection).await;
            loaded.map_err(|error| self.failed(error, call.doing, Effect::None))?;
            answer = call.request.send(&mut connection).await;
        }
        let answer = answer.map_err(|error| self.failed(error, call.doing, call.effect))?;
        // The server may have been replaced since the call was sent. Then its answer may be old,
        // and what it has committed may be lost.
        if !self.is_confirmed(call.doing).await {
            return Err(error::replaced(call.doing, call.effect));
        }
        Ok(answer)
    }

    fn failed(&self, error: RedisError, doing: &str, effect: Effect) -> StoreError {
        if !error::is_answer(&error) {
            self.ended.store(true, Ordering::Release);
        }
        if error.code() == Some("READONLY") {
            // A demoted server still answers reads, possibly with old records. So no connection is
            // used any more.
            self.all_refusals.fetch_add(1, Ordering::AcqRel);
        }
        error::after_sending(error, doing, effect)
    }
}

/// The connections of a store to its server, and the results of the last checks of that server.
pub(crate) struct Links {
    route: Route,
    /// The first bytes of all keys of the volume.
    pub(crate) prefix: String,
    pub(crate) scripts: Scripts,
    slots: Vec<Mutex<Option<Link>>>,
    next: AtomicUsize,
    tasks: TaskTracker,
    closed: AtomicBool,
    refusals: Arc<AtomicU64>,
    /// The result of the last check of the server.
    pub(crate) standing: Standing,
    /// Time of the last check of the server.
    asked: std::sync::Mutex<Instant>,
    /// The run (from one start to the next) of the server to which the last connection led.
    run: std::sync::Mutex<Option<Arc<str>>>,
    /// The run of the server in which this process saw it begin to rewrite its append-only file;
    /// empty before.
    rewritten_in: Mutex<String>,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Links({:?}, {}, {})", self.route, self.prefix, self.slots.len())
    }
}

impl Links {
    pub(crate) fn new(address: Address, options: &RedisOptions) -> Links {
        Links {
            route: address.route,
            prefix: address.prefix,
            scripts: Scripts::new(),
            slots: (0..options.connections.max(1)).map(|_| Mutex::new(None)).collect(),
            next: AtomicUsize::new(0),
            tasks: TaskTracker::new(),
            closed: AtomicBool::new(false),
            refusals: Arc::default(),
            standing: Standing::new(options.relaxed),
            asked: std::sync::Mutex::new(Instant::now()),
            run: std::sync::Mutex::default(),
            rewritten_in: Mutex::default(),
        }
    }

    /// Makes a call, in a task that completes even if its caller goes away.
    pub(crate) async fn call(self: &Arc<Self>, call: Call) -> Result<Value, StoreError> {
        self.call_and_run(call).await.map(|(answer, _)| answer)
    }

    /// Makes a call. Returns the answer, and the run of the server, from one start to the next,
    /// that answered.
    pub(crate) async fn call_and_run(
        self: &Arc<Self>,
        call: Call,
    ) -> Result<(Value, Arc<str>), StoreError> {
        let links = Arc::clone(self);
        let (doing, effect) = (call.doing, call.effect);
        let task = self.tasks.spawn(async move {
            let link = links.link(call.bytes, call.doing).await?;
            if call.run.as_ref().is_some_and(|run| **run != *link.run) {
                let doing = format!("{}: the server was restarted since then", call.doing);
                return Err(StoreError::new(StoreErrorKind::Unavailable, doing));
            }
            Ok((link.call(&call).await?, link.run))
        });
        task.await.unwrap_or_else(|_| {
            let kind = match effect {
                Effect::None => StoreErrorKind::Unavailable,
                Effect::Commits => StoreErrorKind::Unknown,
            };
            Err(StoreError::new(kind, format!("{doing}: the runtime is shutting down")))
        })
    }

    /// Returns the run of the server to which the next connection leads.
    pub(crate) async fn run(self: &Arc<Self>, doing: &str) -> Result<Arc<str>, StoreError> {
        self.link(0, doing).await.map(|link| link.run)
    }

    /// Returns the next connection in turn. Makes a new one if it has ended.
    async fn link(self: &Arc<Self>, bytes: usize, doing: &str) -> Result<Link, StoreError> {
        // Small requests use all connections except the last one; with one connection, that one.
        let small = self.slots.len().saturating_sub(1).max(1);
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % small;
        let slot = if bytes >= LARGE_BYTES { self.slots.last() } else { self.slots.get(turn) };
        let Some(slot) = slot else { return Err(error::closed(doing)) };
        let found = timeout(LINK_TIMEOUT, async {
            let mut slot = slot.lock().await;
            if self.closed.load(Ordering::Acquire) {
                return Err(error::closed(doing));
            }
            if let Some(link) = slot.as_ref().filter(|link| link.is_alive())
                && link.is_confirmed(doing).await
            {
                self.check_server_if_due();
                self.look_up_if_due();
                return Ok(link.clone());
            }
            *slot = None;
            let link = self.connect(doing).await?;
            Ok(slot.insert(link).clone())
        });
        found.await.unwrap_or_else(|_| {
            let doing = format!("{doing}: waiting for a connection");
            Err(StoreError::new(StoreErrorKind::Unavailable, doing))
        })
    }

    /// Checks the server in the background if the last check is too old. This needs a new
    /// connection, because the address may lead to another server now.
    fn check_server_if_due(self: &Arc<Self>) {
        const DOING: &str = "checking the server of the metadata store";
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.elapsed() < ASK_EVERY {
            return;
        }
        *asked = Instant::now();
        drop(asked);
        let links = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = links.connect(DOING).await {
                tracing::warn!(%error, "checking the metadata store");
            }
        });
    }

    /// Asks the Sentinels for the master in the background, if the last lookup is too old. A change
    /// ends the trust in all older connections.
    fn look_up_if_due(self: &Arc<Self>) {
        const DOING: &str = "asking the Sentinels of the metadata store";
        if let Route::Sentinels(sentinels) = &self.route
            && sentinels.is_due()
        {
            let sentinels = Arc::clone(sentinels);
            self.tasks.spawn(async move {
                // The lookup logs its error.
                let _ = sentinels.master(DOING).await;
            });
        }
    }

    /// Returns true if Sentinels may replace the server.
    pub(crate) fn has_sentinels(&self) -> bool {
        matches!(self.route, Route::Sentinels(_))
    }

    /// Records the run of the server of a new connection. If the run has changed, older connections
    /// may lead to the previous server, and are not used any more. Returns the number of failed
    /// checks.
    fn note_run(&self, run: &Arc<str>, refusals: u64) -> u64 {
        let mut known = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() == Some(run) || known.replace(Arc::clone(run)).is_none() {
            return refusals;
        }
        tracing::warn!("the address of the metadata store leads to another run of the server");
        self.refusals.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Makes a connection to a server that passes the checks. For example, a replica would answer
    /// with old data.
    pub(crate) async fn connect(&self, doing: &str) -> Result<Link, StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(error::closed(doing));
        }
        let refusals = self.refusals.load(Ordering::Acquire);
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    has_ended.store(true, Ordering::Release);
                }
                Ok::<(), redis::aio::SendError>(())
            });
        let connecting = async {
            let (client, trust) = self.route.server(doing).await?;
            let of_sentinels =
                trust.as_ref().map(|trust| format!("{doing}: using the master {}", trust.master()));
            let doing = of_sentinels.as_deref().unwrap_or(doing);
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            let connection = connection.await;
            let mut connection = connection.map_err(|error| error::unreachable(doing, error))?;
            let mut about = about::ask(&mut connection, doing).await?;
            let refused = |_: &StoreError| {
                self.refusals.fetch_add(1, Ordering::AcqRel);
            };
            about.check(doing).inspect_err(refused)?;
            if self.has_sentinels() {
                about.expect_failover();
            }
            // Before the risks are checked: a refused rewrite is one of them.
            self.rewrite(&mut connection, &mut about, doing).await?;
            self.standing.accept(&about, doing).inspect_err(refused)?;
            *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            // Checked last, so that a slow connection to an old master does not replace newer ones.
            if trust.as_ref().is_some_and(|trust| !trust.holds()) {
                return Err(error::replaced(doing, Effect::None));
            }
            let run: Arc<str> = about.run().into();
            let refusals = self.note_run(&run, refusals);
            let all_refusals = Arc::clone(&self.refusals);
            Ok(Link { connection, run, ended, refusals, all_refusals, trust })
        };
        timeout(LINK_TIMEOUT, connecting).await.unwrap_or_else(|_| {
            let doing = format!("{doing}: connecting to the server took too long");
            Err(StoreError::new(StoreErrorKind::Unavailable, doing))
        })
    }

    /// Makes the server rewrite its append-only file, if it has not done so since its start. The
    /// module `append_log` has the reason.
    async fn rewrite(
        &self,
        connection: &mut MultiplexedConnection,
        about: &mut About,
        doing: &str,
    ) -> Result<(), StoreError> {
        // One connection asks for the rewrite; the others wait for it.
        let mut rewritten_in = self.rewritten_in.lock().await;
        if !about.needs_rewrite() || *rewritten_in == about.run() {
            return Ok(());
        }
        match append_log::rewrite(connection, doing).await? {
            Rewrite::Begun => about.run().clone_into(&mut rewritten_in),
            Rewrite::Refused(why) => about.refuse_rewrite(why),
        }
        Ok(())
    }

    /// Runs a future in the background, if the runtime still exists.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.tasks.spawn_on(work, &runtime);
        }
    }

    /// Waits for the calls in flight and closes all connections.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.tasks.close();
        self.tasks.wait().await;
        for slot in &self.slots {
            *slot.lock().await = None;
        }
    }
}
