//! The members of the cluster: a channel to each, and the choice of one for each request.
//!
//! Requests go to the *chosen* member, which is the leader if it answers. A read that the chosen
//! member does not answer within [`HEDGE`] is also sent to the others, and the first answer counts.
//! A commit is sent again only if it certainly has not happened: no connection could be made, or
//! the member says that its cluster has no leader.
//!
//! For example, if the machine of the leader stops, reads go on after a second at another member,
//! and a commit in flight has an unknown outcome after [`COMMIT_DEADLINE`].

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use prost::Message;
use store::{StoreError, StoreErrorKind};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::address::{Address, Credentials};
use crate::error::{self, Effect, OtherCluster};
use crate::rpc::{
    self, AUTHENTICATE, Answer, AuthenticateAnswer, AuthenticateRequest, STATUS, StatusAnswer,
    StatusRequest, TXN, Txn, TxnAnswer, WatchAnswer, WatchRequest,
};

/// Limit of the time of a connection to one member.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// Time without an answer after which a read is also sent to another member.
const HEDGE: Duration = Duration::from_secs(1);

/// Limit of the time of a read, over all members.
const READ_DEADLINE: Duration = Duration::from_secs(10);

/// Time after which a request that members refuse is not sent again. It is longer than most
/// elections.
const TRYING: Duration = Duration::from_secs(3);

/// Time after which a request is not sent again if no member answers it, for example because no
/// connection can be made.
const UNREACHABLE: Duration = Duration::from_millis(500);

/// As [`UNREACHABLE`], if the cluster has one member only.
const SOLE_UNREACHABLE: Duration = Duration::from_millis(25);

/// Pause before a request is sent again to members that have all failed.
const PAUSE: Duration = Duration::from_millis(50);

/// Limit of the time of a commit, if the cluster has several members: an election takes one to two
/// seconds, and a member that stops does not answer at all.
const COMMIT_DEADLINE: Duration = Duration::from_secs(3);

/// Limit of the time of a commit, if there is one member only.
const SOLE_COMMIT_DEADLINE: Duration = Duration::from_secs(10);

/// Limit of the time in which a member gives a token.
const TOKEN_DEADLINE: Duration = Duration::from_secs(2);

/// Limit of the time in which members answer the question for their state.
const STATUS_DEADLINE: Duration = Duration::from_secs(1);

/// As [`STATUS_DEADLINE`], while a failed request waits for the choice of another member.
const CHOICE_DEADLINE: Duration = Duration::from_millis(300);

/// Interval of the pings on a connection. Members close a connection that pings more often than
/// their `--grpc-keepalive-min-time`, 5 seconds by default.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Limit of the time of the answer to a ping.
const PING_DEADLINE: Duration = Duration::from_secs(3);

/// Name of the metadata of a request that carries the token.
const TOKEN: &str = "token";

/// Name of the metadata of a watch that ends it when its member loses its leader.
const HAS_LEADER: &str = "hasleader";

#[derive(Debug)]
struct Member {
    url: String,
    channel: Channel,
    /// False after the connection has failed, until the member answers again. A commit is sent on a
    /// proven connection only. Otherwise a connection that ends at once would leave the outcome of
    /// the commit unknown.
    is_proven: AtomicBool,
}

/// The members of one cluster, with a channel to each.
#[derive(Debug)]
pub(crate) struct Members {
    list: Vec<Member>,
    /// Index of the member to which requests go.
    chosen: AtomicUsize,
    credentials: Option<Credentials>,
    token: RwLock<Option<MetadataValue<Ascii>>>,
    /// Held by the request that gets a token, so that many refused requests get one.
    authenticating: Mutex<()>,
    /// Held by the task that chooses a member, so that many failed requests choose once.
    choosing: Mutex<()>,
    /// Number of requests of calls, without checks of members and watches.
    requests: AtomicU64,
    /// The id of the cluster, from the first answer. A member that has lost its data and came up as
    /// a cluster of its own has another one.
    cluster: OnceLock<u64>,
}

impl Members {
    /// Prepares channels. They connect when they are used.
    pub(crate) fn new(address: &Address) -> Result<Members, StoreError> {
        let member = |url: &String| {
            let doing = || format!("preparing a connection to etcd at {url}");
            let failed = |error| StoreError::because(StoreErrorKind::Malformed, doing(), error);
            let endpoint = Endpoint::from_shared(url.clone()).map_err(failed)?;
            let endpoint = endpoint
                .connect_timeout(CONNECT_DEADLINE)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_DEADLINE)
                .keep_alive_while_idle(true);
            let endpoint = match &address.tls {
                Some(tls) => endpoint.tls_config(tls.clone()).map_err(failed)?,
                None => endpoint,
            };
            let (url, channel) = (url.clone(), endpoint.connect_lazy());
            Ok(Member { url, channel, is_proven: AtomicBool::new(false) })
        };
        Ok(Members {
            list: address.members.iter().map(member).collect::<Result<_, StoreError>>()?,
            chosen: AtomicUsize::new(0),
            credentials: address.credentials.clone(),
            token: RwLock::default(),
            authenticating: Mutex::default(),
            choosing: Mutex::default(),
            requests: AtomicU64::new(0),
            cluster: OnceLock::new(),
        })
    }

    /// Returns the number of requests that calls have sent so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn chosen(&self) -> usize {
        self.chosen.load(Ordering::SeqCst)
    }

    fn token(&self) -> Option<MetadataValue<Ascii>> {
        self.token.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gets a token from one member, unless another request has replaced the token that was
    /// `refused` meanwhile. An error says that the request that needs the token was not sent.
    async fn authenticate(
        &self,
        index: usize,
        user: &Credentials,
        refused: Option<MetadataValue<Ascii>>,
    ) -> Result<(), Status> {
        let _authenticating = self.authenticating.lock().await;
        if self.token() != refused {
            return Ok(());
        }
        let request =
            AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
        let channel = self.list[index].channel.clone();
        let asked = rpc::call(channel, AUTHENTICATE, Request::new(request));
        let late = |_| Status::deadline_exceeded(format!("no token in {TOKEN_DEADLINE:?}"));
        let answer = timeout(TOKEN_DEADLINE, asked).await.map_err(late).flatten();
        let answer: AuthenticateAnswer = answer.map_err(error::without_token)?;
        let token = MetadataValue::try_from(answer.token);
        let token = token.map_err(|_| Status::internal("the token is no header"));
        let mut token = token.map_err(error::without_token)?;
        // Otherwise the text of this value for debugging would have the token.
        token.set_sensitive(true);
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(())
    }

    /// Sends a request to one member, and remembers if the connection works.
    async fn send<Q, A>(&self, index: usize, path: &'static str, message: &Q) -> Result<A, Status>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Answer,
    {
        let answer = self.send_with_token(index, path, message).await;
        let answer = answer.and_then(|answer| self.check_cluster(answer));
        let is_proven = answer.as_ref().err().is_none_or(error::is_of_member);
        self.list[index].is_proven.store(is_proven, Ordering::SeqCst);
        answer
    }

    /// Returns the answer. Fails if it comes from a member of another cluster than the first
    /// answer.
    pub(crate) fn check_cluster<A: Answer>(&self, answer: A) -> Result<A, Status> {
        let Some(found) = answer.header().map(|header| header.cluster_id) else {
            return Ok(answer);
        };
        let known = *self.cluster.get_or_init(|| found);
        if found == known {
            return Ok(answer);
        }
        Err(error::of_other_cluster(OtherCluster { found, known }))
    }

    /// Makes sure that a member answers, if its connection has failed before.
    async fn prove(&self, index: usize) -> Result<(), Status> {
        if self.list[index].is_proven.load(Ordering::SeqCst) {
            return Ok(());
        }
        let asked = self.send::<_, StatusAnswer>(index, STATUS, &StatusRequest {});
        let late = |_| Status::deadline_exceeded(format!("no answer in {STATUS_DEADLINE:?}"));
        timeout(STATUS_DEADLINE, asked).await.map_err(late)?.map(drop)
    }

    /// Sends a request to one member. If the member wants a new token, gets one and sends the
    /// request again: the member has refused it before it did anything.
    async fn send_with_token<Q, A>(
        &self,
        index: usize,
        path: &'static str,
        message: &Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Answer,
    {
        let request = || {
            let mut request = Request::new(message.clone());
            if let Some(token) = self.token() {
                request.metadata_mut().insert(TOKEN, token);
            }
            request
        };
        let channel = &self.list[index].channel;
        if let (Some(user), None) = (&self.credentials, self.token()) {
            self.authenticate(index, user, None).await?;
        }
        let sent = self.token();
        let answer = rpc::call(channel.clone(), path, request()).await;
        match (answer, &self.credentials) {
            (Err(status), Some(user)) if error::wants_token(&status) => {
                self.authenticate(index, user, sent).await?;
                rpc::call(channel.clone(), path, request()).await
            }
            (answer, _) => answer,
        }
    }

    /// Sends a request that changes nothing, to the chosen member first. Returns the first answer.
    pub(crate) async fn ask<Q, A>(
        &self,
        path: &'static str,
        message: &Q,
        doing: &str,
    ) -> Result<A, StoreError>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Answer,
    {
        let asked = self.try_ask(path, message).await;
        asked.map_err(|status| error::of(&status, doing, Effect::None))
    }

    /// As [`Members::ask`], but returns the member's own error.
    pub(crate) async fn try_ask<Q, A>(&self, path: &'static str, message: &Q) -> Result<A, Status>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Answer,
    {
        let late = |_| Status::deadline_exceeded(format!("no answer within {READ_DEADLINE:?}"));
        timeout(READ_DEADLINE, self.ask_each(path, message)).await.map_err(late)?
    }

    async fn ask_each<Q, A>(&self, path: &'static str, message: &Q) -> Result<A, Status>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Answer,
    {
        let (begun, first, count) = (Instant::now(), self.chosen(), self.list.len());
        let mut started = 0;
        let mut have_failed = vec![false; count];
        let mut tries = FuturesUnordered::new();
        let attempt = async |index: usize, is_again: bool| {
            if is_again {
                sleep(PAUSE).await;
            }
            self.requests.fetch_add(1, Ordering::Relaxed);
            (index, self.send(index, path, message).await)
        };
        loop {
            if started < count {
                tries.push(attempt((first + started) % count, false));
                started += 1;
            }
            let wait = if started < count { HEDGE } else { READ_DEADLINE };
            match timeout(wait, tries.next()).await {
                Ok(Some((index, Ok(answer)))) => {
                    if index != first {
                        self.chosen.store(index, Ordering::SeqCst);
                    }
                    return Ok(answer);
                }
                Ok(Some((index, Err(status)))) if error::may_be_elsewhere(&status) => {
                    have_failed[index] = true;
                    // Asked again while another one may never answer: an election makes a member
                    // that runs refuse the reads of its time.
                    let one_hangs = have_failed.contains(&false);
                    if started >= count && (one_hangs || begun.elapsed() <= self.trying(&status)) {
                        tries.push(attempt(index, true));
                    } else if started >= count && tries.is_empty() {
                        return Err(status);
                    }
                }
                Ok(Some((_, Err(status)))) => return Err(status),
                // The next member is asked too, while this one may still answer.
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// Sends a transaction that changes the store.
    pub(crate) async fn commit(&self, txn: &Txn, doing: &str) -> Result<TxnAnswer, StoreError> {
        let begun = Instant::now();
        let deadline = if self.list.len() > 1 { COMMIT_DEADLINE } else { SOLE_COMMIT_DEADLINE };
        loop {
            let chosen = self.chosen();
            if let Err(status) = self.prove(chosen).await {
                self.choose(chosen).await;
                if begun.elapsed() > self.trying(&status) {
                    // The transaction was not sent.
                    return Err(error::of(&status, doing, Effect::None));
                }
                sleep(PAUSE).await;
                continue;
            }
            self.requests.fetch_add(1, Ordering::Relaxed);
            let Ok(answer) = timeout(deadline, self.send(chosen, TXN, txn)).await else {
                self.list[chosen].is_proven.store(false, Ordering::SeqCst);
                self.choose(chosen).await;
                let late = format!("no answer of {} in {deadline:?}", self.list[chosen].url);
                return Err(StoreError::because(StoreErrorKind::Unknown, doing, late));
            };
            let status = match answer {
                Ok(answer) => return Ok(answer),
                Err(status) => status,
            };
            if error::may_be_elsewhere(&status) {
                self.choose(chosen).await;
            }
            let is_definite = error::kind(&status, Effect::Commits) == StoreErrorKind::Unavailable;
            if !is_definite
                || !error::may_be_elsewhere(&status)
                || begun.elapsed() > self.trying(&status)
            {
                return Err(error::of(&status, doing, Effect::Commits));
            }
            sleep(PAUSE).await;
        }
    }

    /// Asks all members for their state at the same time.
    pub(crate) async fn statuses(&self) -> Vec<(&str, Result<StatusAnswer, Status>)> {
        self.statuses_within(STATUS_DEADLINE).await
    }

    async fn statuses_within(&self, limit: Duration) -> Vec<(&str, Result<StatusAnswer, Status>)> {
        let ask = async |index: usize| {
            let asked = self.send(index, STATUS, &StatusRequest {});
            let late = |_| Status::deadline_exceeded(format!("no answer in {limit:?}"));
            let answer = timeout(limit, asked).await.map_err(late).flatten();
            (&*self.list[index].url, answer)
        };
        join_all((0..self.list.len()).map(ask)).await
    }

    /// Sends a question to each member, one after the other. Ignores members that do not answer.
    /// Fails with the first other error, and the URL of its member.
    pub(crate) async fn ask_all(&self, txn: &Txn) -> Result<(), (String, Status)> {
        for (index, member) in self.list.iter().enumerate() {
            let asked = timeout(READ_DEADLINE, self.send::<_, TxnAnswer>(index, TXN, txn)).await;
            match asked {
                Ok(Err(status)) if !error::may_be_elsewhere(&status) => {
                    return Err((member.url.clone(), status));
                }
                // Another member, which answers, decides if the cluster can be used.
                Ok(Ok(_) | Err(_)) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Chooses a member after the chosen one has failed: the leader, or else the first that knows a
    /// leader. If none answers, the next one in the list.
    async fn choose(&self, failed: usize) {
        let _choosing = self.choosing.lock().await;
        if self.chosen() != failed {
            return;
        }
        let statuses = self.statuses_within(CHOICE_DEADLINE).await;
        if !self.choose_by(&statuses) {
            self.chosen.store((failed + 1) % self.list.len(), Ordering::SeqCst);
        }
    }

    /// Chooses the leader, or the first member that knows a leader. Returns false if there is none.
    /// A member that has not noticed the election of another leader has an earlier term.
    pub(crate) fn choose_by(&self, statuses: &[(&str, Result<StatusAnswer, Status>)]) -> bool {
        let mut leader: Option<(usize, Option<u64>)> = None;
        for (index, (_, status)) in statuses.iter().enumerate() {
            let Some(status) = status.as_ref().ok().filter(|status| status.leader != 0) else {
                continue;
            };
            let header = status.header.filter(|header| header.member_id == status.leader);
            let term = header.map(|header| header.raft_term);
            if leader.is_none_or(|(_, latest)| term > latest) {
                leader = Some((index, term));
            }
        }
        if let Some((index, _)) = leader {
            self.chosen.store(index, Ordering::SeqCst);
        }
        leader.is_some()
    }

    /// Opens a stream of changes at the chosen member.
    pub(crate) async fn watch(
        &self,
        requests: impl futures::Stream<Item = WatchRequest> + Send + 'static,
    ) -> Result<tonic::Streaming<WatchAnswer>, Status> {
        let index = self.chosen();
        if let (Some(user), None) = (&self.credentials, self.token()) {
            self.authenticate(index, user, None).await?;
        }
        let mut request = Request::new(requests);
        if let Some(token) = self.token() {
            request.metadata_mut().insert(TOKEN, token);
        }
        request.metadata_mut().insert(HAS_LEADER, MetadataValue::from_static("true"));
        rpc::watch(self.list[index].channel.clone(), request).await
    }

    /// Forgets the token, so that the next request gets a new one.
    pub(crate) fn forget_token(&self) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the time after which a request that fails in this way is not sent again.
    fn trying(&self, status: &Status) -> Duration {
        match self.list.len() {
            _ if error::is_of_member(status) => TRYING,
            1 => SOLE_UNREACHABLE,
            _ => UNREACHABLE,
        }
    }
}
