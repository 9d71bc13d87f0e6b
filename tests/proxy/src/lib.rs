//! A TCP proxy between a client and a server, for tests. It counts round trips, and it cuts,
//! resets, delays or holds connections at chosen moments.
//!
//! It knows no protocol. A request is everything that the client sends until the server replies. So
//! the count of round trips is exact for clients that wait for each reply, and a lower bound for
//! clients with several requests in flight on one connection.
//!
//! For example, `proxy.cut(Cut::AfterReply, b"COMMIT", 1)` lets the next commit reach the database
//! and drops its reply, so that the client does not know the outcome.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

mod unreliable;

use unreliable::{Pieces, Unreliable};

/// The time limit of a connection to the server.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// The length of the buffer, in bytes. The bytes that [`Proxy::cut`] looks for must be in one
/// buffer.
const PIECE_BYTES: usize = 64 << 10;

/// The place at which a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The request does not reach the server.
    BeforeRequest,
    /// The server has replied, and the reply does not reach the client.
    AfterReply,
    /// Like [`Cut::AfterReply`], but the connection stays and everything is held, as by
    /// [`Proxy::hold`].
    HoldReply,
}

/// A proxy in front of one server. It ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified of each change of the state.
    changed: Condvar,
    trips: AtomicU64,
    cuts: AtomicU64,
    unreliable: Unreliable,
}

#[derive(Debug)]
struct State {
    /// The server for new connections.
    target: SocketAddr,
    /// The fault for the next requests that contain these bytes, and their number.
    armed: Option<(Cut, Vec<u8>, u64)>,
    /// True if nothing passes in either direction.
    held: bool,
    /// True if new connections are closed at once.
    closed: bool,
    ended: bool,
    connections: Vec<(TcpStream, TcpStream)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while everything is held.
    fn wait(&self) {
        let mut state = self.state();
        while state.held && !state.ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the fault of this request, if any, and counts it.
    fn take_cut(&self, request: &[u8]) -> Option<Cut> {
        let mut state = self.state();
        let (cut, needle, left) = state.armed.as_mut()?;
        let found = needle.is_empty() || request.windows(needle.len()).any(|part| part == *needle);
        if !found {
            return None;
        }
        let cut = *cut;
        *left -= 1;
        if *left == 0 {
            state.armed = None;
        }
        Some(cut)
    }

    fn count_cut(&self) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

impl Proxy {
    /// Starts a proxy on a free port of this machine.
    pub fn start(target: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = State {
            target,
            armed: None,
            held: false,
            closed: false,
            ended: false,
            connections: Vec::new(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            trips: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            unreliable: Unreliable::default(),
        });
        let accepting = Arc::clone(&shared);
        named("proxy").spawn(move || {
            for client in listener.incoming() {
                if accepting.state().ended {
                    return;
                }
                let Ok(client) = client else { continue };
                // If the server is unreachable, the connection of the client is closed.
                let _ = serve(client, &accepting);
            }
        })?;
        Ok(Proxy { address, shared })
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of round trips so far.
    pub fn trips(&self) -> u64 {
        self.shared.trips.load(Ordering::SeqCst)
    }

    /// Delays everything that arrives, in both directions, by a random time up to `longest`. Bytes
    /// of one direction keep their order. Zero ends the delays.
    pub fn delay(&self, longest: Duration) {
        self.shared.unreliable.set_delay(longest);
    }

    /// Returns the number of delays so far.
    pub fn delays(&self) -> u64 {
        self.shared.unreliable.delays()
    }

    /// Resets each connection that begins from now on: the first one when its first piece of bytes
    /// arrives, the next one at its second piece, and so on. A piece is what one read returns, in
    /// either direction. So a peer that connects again is interrupted at every step of its
    /// protocol.
    pub fn reset_at_each_step(&self) {
        self.shared.unreliable.begin_resets();
    }

    /// Ends the resets of [`Proxy::reset_at_each_step`], also those of present connections.
    pub fn end_resets(&self) {
        self.shared.unreliable.end_resets();
    }

    /// Returns the number of faults by [`Proxy::cut`] and [`Proxy::reset_at_each_step`] so far.
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Cuts the connection of each of the next `times` requests that contain `needle`. An empty
    /// `needle` matches every request. Replaces an earlier call.
    pub fn cut(&self, cut: Cut, needle: &[u8], times: u64) {
        self.shared.state().armed = (times > 0).then(|| (cut, needle.to_vec(), times));
    }

    /// Ends every connection and sends new ones to another server, as when an address moves.
    pub fn move_to(&self, target: SocketAddr) {
        let mut state = self.shared.state();
        state.target = target;
        end(&mut state.connections);
    }

    /// Sends new connections to another server and keeps the present ones.
    pub fn move_new_to(&self, target: SocketAddr) {
        self.shared.state().target = target;
    }

    /// Holds all bytes in both directions, or lets them pass again.
    pub fn hold(&self, held: bool) {
        self.shared.state().held = held;
        self.shared.changed.notify_all();
    }

    /// Closes every connection and refuses new ones, or accepts them again.
    pub fn close(&self, closed: bool) {
        let mut state = self.shared.state();
        state.closed = closed;
        if closed {
            end(&mut state.connections);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        end(&mut state.connections);
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the accepting thread, so that it ends.
        drop(TcpStream::connect(self.address));
    }
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

fn end(connections: &mut Vec<(TcpStream, TcpStream)>) {
    for (client, server) in connections.drain(..) {
        // They may be closed already.
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }
}

/// Passes bytes in both directions, in two threads, until one side ends.
fn serve(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let State { closed, target, .. } = *shared.state();
    if closed {
        return client.shutdown(Shutdown::Both);
    }
    let server = TcpStream::connect_timeout(&target, CONNECT_WAIT)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut state = shared.state();
    state.connections.retain(|(client, _)| client.peer_addr().is_ok());
    state.connections.push((client.try_clone()?, server.try_clone()?));
    drop(state);
    let pieces = shared.unreliable.pieces();
    let marks = Arc::new(Marks { pieces, ..Marks::default() });
    let there = Passing { shared: Arc::clone(shared), marks: Arc::clone(&marks) };
    let back = Passing { shared: Arc::clone(shared), marks };
    let (from_client, to_client) = (client.try_clone()?, client);
    let (from_server, to_server) = (server.try_clone()?, server);
    named("proxy-there").spawn(move || there.requests(from_client, to_server))?;
    named("proxy-back").spawn(move || back.replies(from_server, to_client))?;
    Ok(())
}

/// The shared state of the two directions of a connection.
#[derive(Debug, Default)]
struct Marks {
    /// True if the client has sent bytes since the last reply.
    asked: AtomicBool,
    /// True if the next reply is dropped and the connection is cut.
    swallow: AtomicBool,
    /// True if everything is held when the next reply comes.
    hold: AtomicBool,
    pieces: Pieces,
}

struct Passing {
    shared: Arc<Shared>,
    marks: Arc<Marks>,
}

impl Passing {
    /// Delays a piece of bytes, if the proxy delays. Returns false, after it has reset both
    /// connections, if the piece is the one at which the connection ends.
    fn passes(&self, streams: [&TcpStream; 2]) -> bool {
        self.shared.unreliable.wait();
        let ends = self.shared.unreliable.ends_at(&self.marks.pieces);
        if ends {
            unreliable::reset(streams);
            self.shared.count_cut();
        }
        !ends
    }

    fn requests(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(length @ 1..) = client.read(&mut piece) {
            self.shared.wait();
            if !self.passes([&client, &server]) {
                return;
            }
            match self.shared.take_cut(&piece[..length]) {
                Some(Cut::BeforeRequest) => {
                    self.shared.count_cut();
                    break;
                }
                Some(Cut::AfterReply) => self.marks.swallow.store(true, Ordering::SeqCst),
                Some(Cut::HoldReply) => self.marks.hold.store(true, Ordering::SeqCst),
                None => {}
            }
            self.marks.asked.store(true, Ordering::SeqCst);
            if server.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }

    fn replies(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(length @ 1..) = server.read(&mut piece) {
            self.shared.wait();
            if !self.passes([&client, &server]) {
                return;
            }
            if self.marks.asked.swap(false, Ordering::SeqCst) {
                self.shared.trips.fetch_add(1, Ordering::SeqCst);
            }
            if self.marks.swallow.load(Ordering::SeqCst) {
                self.shared.count_cut();
                break;
            }
            if self.marks.hold.swap(false, Ordering::SeqCst) {
                self.shared.state().held = true;
                self.shared.count_cut();
                self.shared.wait();
            }
            if client.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }
}
