//! A TCP proxy that stands between a client and a server in tests: it counts round trips, and cuts
//! or holds connections at the moments that matter.
//!
//! It knows no protocol. A request is what the client sends before the server speaks again, so the
//! count of trips is exact for clients that wait for their answers, and a lower bound for those
//! that have several requests under way on one connection.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long the proxy tries to reach its server for a client.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// Bytes that are passed on at a time. A request that is looked for is found within one piece.
const PIECE_BYTES: usize = 64 << 10;

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The request does not reach the server.
    BeforeRequest,
    /// The server has answered the request, and the answer does not reach the client.
    AfterReply,
    /// The same, but nothing is cut: from then on everything is held, as by [`Proxy::hold`].
    HoldReply,
}

/// A proxy in front of one server, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told whenever the state changes.
    changed: Condvar,
    trips: AtomicU64,
    cuts: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Where new connections go.
    target: SocketAddr,
    /// What to do to the next request that contains these bytes, how many times over.
    armed: Option<(Cut, Vec<u8>, u64)>,
    /// Nothing passes in either direction.
    held: bool,
    /// New connections are closed at once.
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

    /// Whether this request is one to cut, and where.
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
    /// A proxy on a free port of this machine.
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
        });
        let accepting = Arc::clone(&shared);
        named("proxy").spawn(move || {
            for client in listener.incoming() {
                if accepting.state().ended {
                    return;
                }
                let Ok(client) = client else { continue };
                // A client whose server cannot be reached sees its connection closed.
                let _ = serve(client, &accepting);
            }
        })?;
        Ok(Proxy { address, shared })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often a server has answered so far.
    pub fn trips(&self) -> u64 {
        self.shared.trips.load(Ordering::SeqCst)
    }

    /// How many connections have been cut by [`Proxy::cut`] so far.
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Cuts the connection of each of the next `times` requests that contain `needle`; an empty one
    /// is in every request. Replaces what was asked for before.
    pub fn cut(&self, cut: Cut, needle: &[u8], times: u64) {
        self.shared.state().armed = (times > 0).then(|| (cut, needle.to_vec(), times));
    }

    /// Ends every connection, and has new ones go to another server, as when an address moves.
    pub fn move_to(&self, target: SocketAddr) {
        let mut state = self.shared.state();
        state.target = target;
        end(&mut state.connections);
    }

    /// Has new connections go to another server, and leaves those that there are where they lead.
    pub fn move_new_to(&self, target: SocketAddr) {
        self.shared.state().target = target;
    }

    /// Lets nothing pass any more, in either direction, or everything again.
    pub fn hold(&self, held: bool) {
        self.shared.state().held = held;
        self.shared.changed.notify_all();
    }

    /// Closes every connection and refuses new ones, or lets them in again.
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
        // Wakes the thread that accepts, so that it sees the end.
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

/// Passes a client's bytes to the server and back, in two threads, until one of them ends.
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
    let marks = Arc::new(Marks::default());
    let there = Passing { shared: Arc::clone(shared), marks: Arc::clone(&marks) };
    let back = Passing { shared: Arc::clone(shared), marks };
    let (from_client, to_client) = (client.try_clone()?, client);
    let (from_server, to_server) = (server.try_clone()?, server);
    named("proxy-there").spawn(move || there.requests(from_client, to_server))?;
    named("proxy-back").spawn(move || back.replies(from_server, to_client))?;
    Ok(())
}

/// What the two directions of a connection tell each other.
#[derive(Debug, Default)]
struct Marks {
    /// The client has spoken since the server last did.
    asked: AtomicBool,
    /// The next reply is not passed on, and the connection is cut instead.
    swallow: AtomicBool,
    /// When the next reply comes, everything is held.
    hold: AtomicBool,
}

struct Passing {
    shared: Arc<Shared>,
    marks: Arc<Marks>,
}

impl Passing {
    fn requests(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(length @ 1..) = client.read(&mut piece) {
            self.shared.wait();
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
