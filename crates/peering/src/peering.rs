//! The listeners of a session before it has begun, so that its record can list their addresses.
//!
//! For example, a gateway binds, writes the addresses of [`Peering::reach`] into its session
//! record, and calls [`Peering::start`] when the record is committed.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use record::{Nonce, SocketSecret};
use runtime::Tasks;
use tokio::net::{TcpListener, UnixListener};
use tracing::warn;

use crate::address;
use crate::exchange::{self, in_words};
use crate::handshake::{PeeringKey, Provers};
use crate::listener::Listener;
use crate::registry::Registry;
use crate::socket_file::{self, SocketFile};
use crate::{LinkEvents, Links};

/// The place of a session among its peers.
#[derive(Clone, Debug)]
pub struct PeeringOptions {
    /// The id of the volume, from its record.
    pub volume: [u8; 16],
    /// The secret of the volume's sessions for connections over TCP. A session without it connects
    /// only through socket files.
    pub network_key: Option<PeeringKey>,
    /// The folder for the socket file, through which sessions of the same machine connect, or
    /// `None` for none.
    pub socket_dir: Option<PathBuf>,
    /// The address of the TCP listener, or `None` for none. Port 0 takes a free port.
    pub listen: Option<SocketAddr>,
    /// The host and port that the session announces instead of the listener's address, for example
    /// `gateway-1.example.com:9703` behind NAT.
    pub address: Option<String>,
}

/// The reason why a session has no listeners: a fragment after "cannot connect to peer sessions: ".
#[derive(Debug, thiserror::Error)]
pub enum PeeringError {
    /// There is no TCP listener.
    #[error("{address} cannot be listened on: {}", in_words(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The announced address has another form.
    #[error("`{0}` is not a host and a port, for example gateway-1:9703")]
    Address(String),
    /// There is no secret for the connections of a TCP listener.
    #[error("a listener on the network needs the master key of the volume")]
    NoKey,
    /// An address is announced without a listener.
    #[error("an announced address needs a listener")]
    NoListener,
}

/// The reason why a session has no socket file, for a warning.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketFileError {
    #[error("no socket can be made in {}: {}", folder.display(), in_words(source))]
    Make { folder: PathBuf, source: io::Error },
    /// The path of the folder is not UTF-8, so no record can hold it.
    #[error("the path {} is not UTF-8; choose another folder", .0.display())]
    Path(PathBuf),
    #[error("the system gives no random bytes")]
    Random,
}

/// The listeners of a session that has not begun.
#[derive(Debug)]
pub struct Peering {
    volume: [u8; 16],
    network_key: Option<PeeringKey>,
    socket_secret: SocketSecret,
    reach: Vec<String>,
    listeners: Vec<Listener>,
    file: Option<SocketFile>,
}

impl Peering {
    /// Makes the listeners, and removes socket files of ended processes from the folder. Peers wait
    /// in the kernel's queues until [`Peering::start`]. If the socket file cannot be made, this is
    /// only a warning, and the session can still connect to others.
    pub async fn bind(options: PeeringOptions) -> Result<Peering, PeeringError> {
        let PeeringOptions { volume, network_key, socket_dir, listen, address } = options;
        if listen.is_some() && network_key.is_none() {
            return Err(PeeringError::NoKey);
        }
        match &address {
            Some(_) if listen.is_none() => return Err(PeeringError::NoListener),
            Some(text) if !address::is_host_port(text) => {
                return Err(PeeringError::Address(text.clone()));
            }
            Some(_) | None => {}
        }
        let mut peering = Peering {
            volume,
            network_key,
            socket_secret: SocketSecret::NONE,
            reach: Vec::new(),
            listeners: Vec::new(),
            file: None,
        };
        if let Some(folder) = socket_dir
            && let Err(error) = peering.bind_unix(folder)
        {
            // For example, the disk is full. The session works without, and only more slowly.
            warn!(
                %error,
                "other processes of this machine cannot connect to this one, so reads beside them \
                 may ask the metadata store; mend the cause and restart it"
            );
        }
        if let Some(socket) = listen {
            let failed = |source| PeeringError::Listen { address: socket, source };
            let listener = TcpListener::bind(socket).await.map_err(failed)?;
            let bound = listener.local_addr().map_err(failed)?;
            peering.reach.extend(address::tcp(bound, address.as_deref()));
            peering.listeners.push(Listener::Tcp(listener));
        }
        Ok(peering)
    }

    pub(crate) fn bind_unix(&mut self, folder: PathBuf) -> Result<(), SocketFileError> {
        socket_file::remove_stale(&folder);
        let name = exchange::random().map_err(|_| SocketFileError::Random)?;
        let secret = exchange::random().map_err(|_| SocketFileError::Random)?;
        let bound = SocketFile::listen(&folder, name)
            .and_then(|(file, listener)| Ok((file, UnixListener::from_std(listener)?)));
        let (file, listener) = match bound {
            Ok(bound) => bound,
            Err(source) => return Err(SocketFileError::Make { folder, source }),
        };
        let text = address::unix(file.path()).ok_or(SocketFileError::Path(folder))?;
        self.reach.push(text);
        self.socket_secret = SocketSecret(secret);
        self.listeners.push(Listener::Unix(listener));
        self.file = Some(file);
        Ok(())
    }

    /// Returns the addresses of the listeners, for the session's record: `unix:`, a user
    /// id and a path, or `tcp:`, a host and a port. A TCP listener on all interfaces has several.
    pub fn reach(&self) -> &[String] {
        &self.reach
    }

    /// Returns the secret of the socket file, for the session's record.
    pub fn socket_secret(&self) -> SocketSecret {
        self.socket_secret
    }

    /// Begins to accept peers as the session `own`. The tasks run until [`Links::close`].
    pub fn start(self, own: Nonce, tasks: &Tasks, events: Arc<dyn LinkEvents>) -> Links {
        let provers =
            Provers::new(self.volume, &self.socket_secret, self.network_key.as_ref(), own);
        let registry = Arc::new(Registry::new(provers, tasks.clone(), events));
        Links::start(registry, self.listeners, self.file)
    }
}
