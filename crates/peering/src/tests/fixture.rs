//! Sessions, the events of their links, raw connections, and a proxy that changes bytes.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use record::{Nonce, SocketSecret};
use runtime::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::address::Address;
use crate::exchange::{self, ExchangeError};
use crate::handshake::{FrameKeys, Prover};
use crate::stream;
use crate::transport::Connection;
use crate::{
    Link, LinkEvents, LinkId, LinkState, Links, Message, Peer, Peering, PeeringKey, PeeringOptions,
};

pub(super) const VOLUME: [u8; 16] = [1; 16];
pub(super) const SECRET: [u8; 32] = [9; 32];

/// The limit of each wait. A passing test waits much less.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub(super) enum Event {
    Opened(Link),
    Received(LinkId, Message),
    Closed(LinkId),
}

#[derive(Debug)]
struct Recorder {
    events: mpsc::Sender<Event>,
}

impl Recorder {
    fn add(&self, event: Event) {
        // A test that has ended receives no more.
        let _ = self.events.try_send(event);
    }
}

impl LinkEvents for Recorder {
    fn opened(&self, link: &Link) {
        self.add(Event::Opened(link.clone()));
    }

    fn received(&self, link: &Link, message: Message) {
        self.add(Event::Received(link.id(), message));
    }

    fn closed(&self, link: &Link) {
        self.add(Event::Closed(link.id()));
    }
}

pub(super) fn nonce(number: u8) -> Nonce {
    Nonce([number; Nonce::BYTES])
}

pub(super) fn options() -> PeeringOptions {
    PeeringOptions {
        volume: VOLUME,
        network_key: Some(PeeringKey::new(SECRET)),
        socket_dir: None,
        listen: None,
        address: None,
    }
}

pub(super) fn local(folder: &Path) -> PeeringOptions {
    PeeringOptions { socket_dir: Some(folder.to_owned()), ..options() }
}

pub(super) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(super) fn remote() -> PeeringOptions {
    PeeringOptions { listen: Some(loopback()), ..options() }
}

/// A session whose events a test takes one by one.
pub(super) struct Session {
    pub(super) links: Links,
    pub(super) reach: Vec<String>,
    pub(super) tasks: Tasks,
    socket_secret: SocketSecret,
    own: Nonce,
    events: mpsc::Receiver<Event>,
}

impl Session {
    pub(super) async fn start(number: u8, options: PeeringOptions) -> Session {
        let peering = Peering::bind(options).await.unwrap();
        let (reach, socket_secret) = (peering.reach().to_vec(), peering.socket_secret());
        let (sender, events) = mpsc::channel(1 << 20);
        let tasks = Tasks::new();
        let own = nonce(number);
        let links = peering.start(own, &tasks, Arc::new(Recorder { events: sender }));
        Session { links, reach, tasks, socket_secret, own, events }
    }

    pub(super) fn peer(&self) -> Peer {
        Peer { nonce: self.own, reach: self.reach.clone(), socket_secret: self.socket_secret }
    }

    pub(super) fn tcp(&self) -> &str {
        self.reach.iter().find_map(|it| it.strip_prefix("tcp:")).expect("a TCP address")
    }

    pub(super) async fn event(&mut self) -> Event {
        timeout(PATIENCE, self.events.recv()).await.expect("an event in time").unwrap()
    }

    pub(super) async fn opened(&mut self) -> Link {
        match self.event().await {
            Event::Opened(link) => link,
            event @ (Event::Received(..) | Event::Closed(_)) => panic!("{event:?}"),
        }
    }

    pub(super) async fn received(&mut self) -> Message {
        match self.event().await {
            Event::Received(_, message) => message,
            event @ (Event::Opened(_) | Event::Closed(_)) => panic!("{event:?}"),
        }
    }

    pub(super) async fn closed(&mut self) -> LinkId {
        match self.event().await {
            Event::Closed(link) => link,
            event @ (Event::Received(..) | Event::Opened(_)) => panic!("{event:?}"),
        }
    }

    /// Returns the events that wait.
    pub(super) fn waiting(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// Asserts that no event waits.
    pub(super) fn quiet(&mut self) {
        let events = self.waiting();
        assert!(events.is_empty(), "{events:?}");
    }

    pub(super) fn state(&self, of: u8) -> Option<LinkState> {
        let states = self.links.states();
        states.into_iter().find(|(peer, _)| *peer == nonce(of)).map(|(_, state)| state)
    }

    /// Waits until the connection to a peer has failed, and returns the text.
    pub(super) async fn failure(&self, of: u8) -> String {
        let text = async || match self.state(of) {
            Some(LinkState::Failed(text)) => Some(text),
            _ => None,
        };
        until(text).await
    }
}

/// Waits until the function returns a value.
pub(super) async fn until<T, F: Future<Output = Option<T>>>(value: impl Fn() -> F) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = value().await {
            return value;
        }
        assert!(Instant::now() < end, "waited too long");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Connects two sessions: the one with the larger number dials.
pub(super) async fn connected(dialer: &mut Session, listener: &mut Session) -> (Link, Link) {
    dialer.links.set_peers(vec![listener.peer()]);
    listener.links.set_peers(vec![dialer.peer()]);
    (dialer.opened().await, listener.opened().await)
}

pub(super) fn ask(number: u64) -> Message {
    Message::Ask { number, outlives_link: false }
}

/// The side of a session in handshakes over TCP.
pub(super) fn prover(number: u8) -> Prover {
    Prover::new(VOLUME, &PeeringKey::new(SECRET), nonce(number))
}

/// Returns the path in the address of a socket file.
pub(super) fn socket_path(reach: &str) -> PathBuf {
    match Address::parse(reach) {
        Some(Address::Unix { path, .. }) => path,
        Some(Address::Tcp(_)) | None => panic!("{reach} is no socket file"),
    }
}

/// A connection without a session: to its listener's TCP address, or its socket file.
pub(super) async fn raw(reach: &str) -> Connection {
    match Address::parse(reach).expect("an address") {
        Address::Unix { owner, path } => stream::connect_unix(&path, owner).unwrap(),
        Address::Tcp(host_port) => stream::of_tcp(TcpStream::connect(host_port).await.unwrap()),
    }
}

/// A connection to the first address of a session, after the handshake as session `own`.
pub(super) async fn dialled(peer: &Peer, own: u8) -> (Connection, FrameKeys) {
    try_dial(peer, own).await.unwrap()
}

pub(super) async fn try_dial(
    peer: &Peer,
    own: u8,
) -> Result<(Connection, FrameKeys), ExchangeError> {
    let reach = &peer.reach[0];
    let mut connection = raw(reach).await;
    let prover = match Address::parse(reach).expect("an address") {
        Address::Unix { .. } => Prover::local(VOLUME, &peer.socket_secret, nonce(own)),
        Address::Tcp(_) => prover(own),
    };
    let dialed = exchange::dial(&mut connection, &prover, peer.nonce);
    let keys = timeout(PATIENCE, dialed).await.expect("an answer in time")?;
    Ok((connection, keys))
}

/// A session without a socket file at these addresses.
pub(super) fn peer_at(number: u8, reach: Vec<String>) -> Peer {
    Peer { reach, ..Peer::without_addresses(nonce(number)) }
}

/// Waits until the other side has closed the connection.
pub(super) async fn until_end(connection: &mut Connection) {
    let mut rest = Vec::new();
    // A reset is an end too.
    let _ = timeout(PATIENCE, connection.reader.read_to_end(&mut rest)).await.expect("an end");
}

/// A TCP proxy before one address. It inverts one bit of the bytes from the dialer at an offset.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    /// Connections that were accepted.
    pub(super) accepted: Arc<AtomicUsize>,
    /// Bits that were inverted.
    pub(super) changed: Arc<AtomicUsize>,
}

impl Proxy {
    pub(super) async fn start(tasks: &Tasks, target: String, damaged: Option<usize>) -> Proxy {
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            accepted: Arc::default(),
            changed: Arc::default(),
        };
        let (counts, inner) = (proxy.clone(), tasks.clone());
        tasks.spawn("proxy", async move {
            loop {
                let (dialer, _) = listener.accept().await.unwrap();
                counts.accepted.fetch_add(1, Ordering::SeqCst);
                let Ok(listener) = TcpStream::connect(&target).await else { continue };
                let (from_dialer, to_dialer) = dialer.into_split();
                let (from_listener, to_listener) = listener.into_split();
                let changed = Arc::clone(&counts.changed);
                inner.spawn("proxy", pass(from_dialer, to_listener, damaged, changed));
                inner.spawn("proxy", pass(from_listener, to_dialer, None, Arc::default()));
            }
        });
        proxy
    }

    pub(super) fn reach(&self) -> String {
        format!("tcp:{}", self.address)
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    damaged: Option<usize>,
    changed: Arc<AtomicUsize>,
) {
    let (mut buffer, mut offset) = (vec![0; 16 << 10], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let at = damaged.and_then(|at| at.checked_sub(offset)).filter(|at| *at < count);
        if let Some(at) = at {
            buffer[at] ^= 0x10;
            changed.fetch_add(1, Ordering::SeqCst);
        }
        offset += count;
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
