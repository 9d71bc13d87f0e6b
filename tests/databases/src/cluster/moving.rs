//! An address that leads to one server and can move to another one, as a virtual address or a load
//! balancer does.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The time limit of a connection to the server.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// The address. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Moving {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// The server; `None` after the end.
    target: Option<SocketAddr>,
    connections: Vec<(TcpStream, TcpStream)>,
}

impl State {
    fn end_connections(&mut self) {
        for (client, server) in self.connections.drain(..) {
            // They may be closed already.
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

impl Moving {
    pub(crate) fn start(target: SocketAddr) -> Moving {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let state = State { target: Some(target), connections: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let accepting = Arc::clone(&state);
        let accept = move || {
            for client in listener.incoming().flatten() {
                let target = locked(&accepting).target;
                let Some(target) = target else { return };
                // The server may be dead; then the connection of the client is closed.
                let _ = serve(client, target, &accepting);
            }
        };
        named().spawn(accept).expect("a thread");
        Moving { address, state }
    }

    /// Returns the address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends every connection and sends new ones to another server.
    pub(crate) fn move_to(&self, target: SocketAddr) {
        let mut state = locked(&self.state);
        state.target = Some(target);
        state.end_connections();
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        let mut state = locked(&self.state);
        state.target = None;
        state.end_connections();
        drop(state);
        // Wakes the accepting thread, so that it ends.
        drop(TcpStream::connect(self.address));
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn named() -> thread::Builder {
    thread::Builder::new().name("moving-address".to_owned())
}

/// Passes bytes in both directions, in two threads, until one side ends.
fn serve(client: TcpStream, target: SocketAddr, state: &Mutex<State>) -> io::Result<()> {
    let server = TcpStream::connect_timeout(&target, CONNECT_WAIT)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut state = locked(state);
    if state.target != Some(target) {
        // The address has moved meanwhile.
        return Ok(());
    }
    state.connections.retain(|(client, _)| client.peer_addr().is_ok());
    state.connections.push((client.try_clone()?, server.try_clone()?));
    drop(state);
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        named().spawn(move || {
            // An error is the end of a connection.
            let _ = io::copy(&mut from, &mut to);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        })
    };
    pass(client.try_clone()?, server.try_clone()?)?;
    pass(server, client)?;
    Ok(())
}
