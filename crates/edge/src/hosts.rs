//! Limits of connections and requests for each host.
//!
//! A host is an IPv4 address, or a /64 network of IPv6, because one IPv6 host usually has such a
//! network. The table has a host only while it has a connection or a request. The connections of a
//! trusted proxy are not counted, and each of its requests counts for the client that
//! `X-Forwarded-For` names. For example, with the proxy 10.0.0.1 and the header `1.2.3.4,
//! 10.0.0.1`, a request counts for 1.2.3.4.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use tokio::sync::Semaphore;

use crate::linger::UnreadBody;
use crate::network::Network;
use crate::queue::Queue;
use crate::service::Caller;
use crate::stall::ResponseKind;

/// The number of bits of an IPv6 address that identify a host.
const HOST_BITS_V6: u32 = 64;

/// The share of one host in the memory of responses that are completely in memory, in KiB.
pub(crate) const HOST_ANSWERS_KIB_MAX: usize = 16 << 10;

/// The header with the addresses of clients. Each proxy appends the address of its client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The header with the protocol between a proxy and its client.
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The limits of connections and requests that apply to each host, and the networks of trusted
/// proxies.
#[derive(Clone, Debug)]
pub struct HostLimits {
    /// The number of connections that one host may have.
    pub connections_max: usize,
    /// The number of requests of one host that may be in flight.
    pub requests_max: usize,
    /// The networks of trusted proxies, whose connections are not counted.
    pub proxies: Vec<Network>,
}

/// The table of all hosts with a connection or a request.
#[derive(Debug)]
pub struct Hosts {
    limits: HostLimits,
    known: Mutex<HashMap<IpAddr, KnownHost>>,
}

/// An entry of the table of hosts: the usage of one host, and its references.
#[derive(Debug)]
struct KnownHost {
    /// The number of [`Host`]s that refer to this entry.
    references: usize,
    usage: Arc<HostUsage>,
}

/// The usage of one host: the number of its open connections, the queue in which its requests wait
/// for permission to be in flight, and the memory of its responses.
#[derive(Debug)]
struct HostUsage {
    connections: AtomicUsize,
    requests: Queue,
    /// The permits for the memory of its responses that are in memory, one for each KiB.
    answers: Arc<Semaphore>,
}

/// A reference to a host. The table drops the host with its last reference.
#[derive(Debug)]
pub(crate) struct Host {
    address: IpAddr,
    usage: Arc<HostUsage>,
    hosts: Arc<Hosts>,
}

/// The other end of a connection: a client, or a trusted proxy that forwards requests of many
/// clients.
#[derive(Debug)]
pub(crate) enum Peer {
    /// A client.
    Host(Host),
    /// A trusted proxy.
    Proxy(Arc<Hosts>),
}

/// The properties of a connection that all of its requests inherit: the other end, its address, and
/// TLS.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) peer: Arc<Peer>,
    /// The peer's address.
    pub(crate) address: IpAddr,
    /// The version of TLS, if the connection uses it.
    pub(crate) tls: Option<&'static str>,
    /// The cipher suite of TLS.
    pub(crate) cipher: Option<&'static str>,
    /// Set if the service leaves the body of a request unread.
    pub(crate) unread: UnreadBody,
    /// The kind of the response that is being sent.
    pub(crate) kind: ResponseKind,
}

impl Origin {
    /// Returns the client that sent a request.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Caller {
        let hosts = match &*self.peer {
            Peer::Host(host) => &host.hosts,
            Peer::Proxy(hosts) => hosts,
        };
        hosts.caller(self.address, (self.tls, self.cipher), headers)
    }
}

/// Counts as one connection of its host until it is dropped.
#[derive(Debug)]
pub(crate) struct HostConnection(Arc<HostUsage>);

/// The host that a request counts for. The table keeps the host while this exists.
#[derive(Debug)]
pub(crate) enum HostRequests {
    /// The other end of the connection, which is the client or a trusted proxy that names none.
    Peer(Arc<Peer>),
    /// The client that a trusted proxy names in `X-Forwarded-For`.
    Behind(Host),
}

impl HostRequests {
    /// Returns the queue in which requests of this host wait for permission to be in flight.
    /// Returns `None` if a trusted proxy names no client: only the limit of all requests applies
    /// then.
    pub(super) fn queue(&self) -> Option<&Queue> {
        self.usage().map(|usage| &usage.requests)
    }

    /// Returns the share of this host in the memory of responses; `None` as for
    /// [`HostRequests::queue`].
    pub(super) fn answers(&self) -> Option<&Arc<Semaphore>> {
        self.usage().map(|usage| &usage.answers)
    }

    fn usage(&self) -> Option<&HostUsage> {
        match self {
            HostRequests::Behind(host) => Some(&host.usage),
            HostRequests::Peer(peer) => match &**peer {
                Peer::Host(host) => Some(&host.usage),
                Peer::Proxy(_) => None,
            },
        }
    }
}

/// Returns true if `X-Forwarded-Proto` says that the client uses TLS, and `None` without this
/// header. The client may have sent a line of its own before the proxy appended one, so every item
/// of every line must be `https`.
pub(super) fn forwarded_proto(headers: &HeaderMap) -> Option<bool> {
    let mut lines = headers.get_all(FORWARDED_PROTO).into_iter().peekable();
    lines.peek()?;
    let is_https = |item: &[u8]| item.trim_ascii().eq_ignore_ascii_case(b"https");
    Some(lines.all(|line| line.as_bytes().split(|byte| *byte == b',').all(is_https)))
}

impl Hosts {
    /// Returns an empty table with these limits.
    pub fn new(limits: HostLimits) -> Arc<Hosts> {
        Arc::new(Hosts { limits, known: Mutex::default() })
    }

    /// Returns the peer at an address.
    pub(crate) fn peer(self: &Arc<Hosts>, address: IpAddr) -> Peer {
        let address = address.to_canonical();
        if self.is_proxy(address) {
            Peer::Proxy(Arc::clone(self))
        } else {
            Peer::Host(self.host(address))
        }
    }

    /// Returns the client of a request: the one that a trusted proxy names, or else the peer.
    fn caller(
        &self,
        peer: IpAddr,
        (tls, cipher): (Option<&'static str>, Option<&'static str>),
        headers: &HeaderMap,
    ) -> Caller {
        // An IPv4 client of an IPv6 socket has a mapped address.
        let (peer, tls) = (peer.to_canonical(), tls.map(Some));
        if !self.is_proxy(peer) {
            return Caller { address: peer, tls, cipher, is_local: peer.is_loopback() };
        }
        let address = self.forwarded_client(headers).unwrap_or(peer);
        match forwarded_proto(headers) {
            Some(true) => Caller { address, tls: Some(None), cipher: None, is_local: false },
            Some(false) => Caller { address, tls: None, cipher: None, is_local: false },
            None => Caller { address, tls, cipher, is_local: false },
        }
    }

    /// Returns true for the address of a trusted proxy.
    fn is_proxy(&self, address: IpAddr) -> bool {
        self.limits.proxies.iter().any(|proxies| proxies.contains(address))
    }

    /// Returns a reference to the host of an address, which is added to the table if necessary.
    fn host(self: &Arc<Hosts>, address: IpAddr) -> Host {
        let at = match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                let network = u128::from(address) >> HOST_BITS_V6 << HOST_BITS_V6;
                IpAddr::V6(Ipv6Addr::from(network))
            }
        };
        let fresh = || {
            let requests = Queue::new(self.limits.requests_max);
            let answers = Arc::new(Semaphore::new(HOST_ANSWERS_KIB_MAX));
            Arc::new(HostUsage { connections: AtomicUsize::new(0), requests, answers })
        };
        let mut known = self.known();
        let entry = known.entry(at).or_insert_with(|| KnownHost { references: 0, usage: fresh() });
        entry.references += 1;
        let usage = Arc::clone(&entry.usage);
        // Before the return, because dropping a `Host` takes this lock.
        drop(known);
        Host { address: at, usage, hosts: Arc::clone(self) }
    }

    /// Returns the host of the client that a proxy names, if it names one.
    fn behind_proxy(self: &Arc<Hosts>, headers: &HeaderMap) -> Option<Host> {
        self.forwarded_client(headers).map(|address| self.host(address))
    }

    /// Returns the last address in `X-Forwarded-For` that is not a trusted proxy's. Returns `None`
    /// if there is none, or if an item after it is not an address.
    fn forwarded_client(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
        for line in lines {
            // From the end, because only the addresses that trusted proxies appended are reliable:
            // the client may have sent the header itself.
            for named in line.as_bytes().rsplit(|byte| *byte == b',') {
                let named = std::str::from_utf8(named).ok()?;
                let address = address(named.trim())?.to_canonical();
                if !self.is_proxy(address) {
                    return Some(address);
                }
            }
        }
        None
    }

    fn known(&self) -> MutexGuard<'_, HashMap<IpAddr, KnownHost>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of hosts in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known().len()
    }
}

impl Peer {
    /// Counts one more connection of this peer, until the returned value is dropped. Returns `None`
    /// if the host has its maximum number of connections, and `Some(None)` for a trusted proxy,
    /// whose connections are not counted.
    pub(crate) fn connection(&self) -> Option<Option<HostConnection>> {
        let Peer::Host(host) = self else { return Some(None) };
        let (connections, max) = (&host.usage.connections, host.hosts.limits.connections_max);
        // Check and increment are one step, so that two connections cannot exceed the limit.
        let more = |now| (now < max).then_some(now + 1);
        connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Some(HostConnection(Arc::clone(&host.usage))))
    }

    /// Returns the address of the host; `None` for a trusted proxy.
    pub(crate) fn host_address(&self) -> Option<IpAddr> {
        match self {
            Peer::Host(host) => Some(host.address),
            Peer::Proxy(_) => None,
        }
    }

    /// Returns the host that a request with these headers counts for.
    pub(crate) fn requests(self: &Arc<Peer>, headers: &HeaderMap) -> HostRequests {
        match &**self {
            Peer::Host(_) => HostRequests::Peer(Arc::clone(self)),
            Peer::Proxy(hosts) => match hosts.behind_proxy(headers) {
                Some(host) => HostRequests::Behind(host),
                None => HostRequests::Peer(Arc::clone(self)),
            },
        }
    }
}

impl Drop for HostConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mut known = self.hosts.known();
        let Some(entry) = known.get_mut(&self.address) else { return };
        entry.references -= 1;
        // So the table does not grow with each address that was ever seen.
        if entry.references == 0 {
            known.remove(&self.address);
        }
    }
}

/// Parses an address in the forms that proxies write: with or without a port, with or without
/// brackets.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Some(address.ip());
    }
    let within = text.strip_prefix('[')?.strip_suffix(']')?;
    within.parse().ok().map(IpAddr::V6)
}
