//! Limits of connections and requests for each host.
//!
//! A host is an IPv4 address, or the /64 network that an IPv6 host has to itself. It is remembered
//! only while it has a connection or a request. A trusted proxy asks for others: its connections
//! are not counted, and its requests count for the client that `X-Forwarded-For` names.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::linger::UnreadBody;
use super::queue::Queue;
use super::stall::Pace;
use crate::config::Network;
use gateway::ClientAddress;
use http::HeaderMap;

/// The bits of an IPv6 address that identify a host.
const HOST_BITS_V6: u32 = 64;

/// The header in which a proxy names its client. Each proxy appends to it.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The header in which a proxy says how its client speaks with it.
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// What one host may have at a time, and which addresses are trusted proxies.
#[derive(Clone, Debug)]
pub(crate) struct HostLimits {
    pub(crate) connections_max: usize,
    pub(crate) requests_max: usize,
    pub(crate) proxies: Vec<Network>,
}

/// All hosts that have a connection or a request now.
#[derive(Debug)]
pub(crate) struct Hosts {
    limits: HostLimits,
    known: Mutex<HashMap<IpAddr, KnownHost>>,
}

#[derive(Debug)]
struct KnownHost {
    /// How many [`Host`]s refer to it.
    holders: usize,
    usage: Arc<HostUsage>,
}

/// What one host has now.
#[derive(Debug)]
struct HostUsage {
    connections: AtomicUsize,
    requests: Queue,
}

/// A reference to a host, which is forgotten with the last one.
#[derive(Debug)]
pub(crate) struct Host {
    at: IpAddr,
    usage: Arc<HostUsage>,
    hosts: Arc<Hosts>,
}

/// Where a connection comes from.
#[derive(Debug)]
pub(crate) enum Peer {
    /// From a client.
    Host(Host),
    /// From a trusted proxy.
    Proxy(Arc<Hosts>),
}

/// What a connection says about where its requests come from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) peer: Arc<Peer>,
    /// The peer's address.
    pub(crate) address: IpAddr,
    /// Which TLS it speaks, if it does.
    pub(crate) tls: Option<&'static str>,
    /// Set if the body of a request is left unread.
    pub(crate) unread: UnreadBody,
    /// Which kind of answer is being sent.
    pub(crate) pace: Pace,
}

impl Origin {
    /// The client that sent a request.
    pub(crate) fn client(&self, headers: &HeaderMap) -> ClientAddress {
        let hosts = match &*self.peer {
            Peer::Host(host) => &host.hosts,
            Peer::Proxy(hosts) => hosts,
        };
        hosts.client(self.address, self.tls, headers)
    }
}

/// One connection of its host, until it is dropped.
#[derive(Debug)]
pub(crate) struct HostConnection(Arc<HostUsage>);

/// The host of a request, which limits how many requests it may have. The host is remembered while
/// this exists.
#[derive(Debug)]
pub(crate) enum HostRequests {
    /// The host at the other end of the connection.
    Peer(Arc<Peer>),
    /// The client that a proxy named.
    Behind(Host),
}

impl HostRequests {
    /// The queue of the host's requests. `None` if a proxy named no client.
    pub(super) fn queue(&self) -> Option<&Queue> {
        match self {
            HostRequests::Behind(host) => Some(&host.usage.requests),
            HostRequests::Peer(peer) => match &**peer {
                Peer::Host(host) => Some(&host.usage.requests),
                Peer::Proxy(_) => None,
            },
        }
    }
}

/// Whether the header says that the client speaks TLS; none if there is no such header. The client
/// may have sent a line of its own, to which the proxy has added another one, so every line and every
/// item of it must say `https`.
pub(super) fn forwarded_proto(headers: &HeaderMap) -> Option<bool> {
    let mut lines = headers.get_all(FORWARDED_PROTO).into_iter().peekable();
    lines.peek()?;
    let is_https = |item: &[u8]| item.trim_ascii().eq_ignore_ascii_case(b"https");
    Some(lines.all(|line| line.as_bytes().split(|byte| *byte == b',').all(is_https)))
}

impl Hosts {
    pub(crate) fn new(limits: HostLimits) -> Arc<Hosts> {
        Arc::new(Hosts { limits, known: Mutex::default() })
    }

    /// The peer at an address.
    pub(crate) fn peer(self: &Arc<Hosts>, address: IpAddr) -> Peer {
        let address = address.to_canonical();
        if self.is_proxy(address) {
            Peer::Proxy(Arc::clone(self))
        } else {
            Peer::Host(self.host(address))
        }
    }

    /// Where a request comes from: the client of a trusted proxy, as that says, or else the peer.
    fn client(
        &self,
        peer: IpAddr,
        tls: Option<&'static str>,
        headers: &HeaderMap,
    ) -> ClientAddress {
        let (peer, tls) = (peer.to_canonical(), tls.map(Some));
        if !self.is_proxy(peer) {
            return ClientAddress { address: peer, tls };
        }
        let address = self.named_by_proxy(headers).unwrap_or(peer);
        match forwarded_proto(headers) {
            Some(true) => ClientAddress { address, tls: Some(None) },
            Some(false) => ClientAddress { address, tls: None },
            None => ClientAddress { address, tls },
        }
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.limits.proxies.iter().any(|proxies| proxies.contains(address))
    }

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
            Arc::new(HostUsage { connections: AtomicUsize::new(0), requests })
        };
        let mut known = self.known();
        let entry = known.entry(at).or_insert_with(|| KnownHost { holders: 0, usage: fresh() });
        entry.holders += 1;
        let usage = Arc::clone(&entry.usage);
        drop(known);
        Host { at, usage, hosts: Arc::clone(self) }
    }

    /// The client of a proxy, if it names one.
    fn behind_proxy(self: &Arc<Hosts>, headers: &HeaderMap) -> Option<Host> {
        self.named_by_proxy(headers).map(|address| self.host(address))
    }

    /// The last address in the header that is no trusted proxy's. `None` if there is none.
    fn named_by_proxy(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
        for line in lines {
            // The client may have sent the header itself, so only what proxies appended counts.
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

    /// How many hosts are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known().len()
    }
}

impl Peer {
    /// Counts one more connection. `None` if its host may have no more; `Some(None)` for a proxy,
    /// whose connections are not counted.
    pub(crate) fn connection(&self) -> Option<Option<HostConnection>> {
        let Peer::Host(host) = self else { return Some(None) };
        let (connections, max) = (&host.usage.connections, host.hosts.limits.connections_max);
        let more = |now| (now < max).then_some(now + 1);
        connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Some(HostConnection(Arc::clone(&host.usage))))
    }

    /// The host of a request with these headers.
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
        let Some(entry) = known.get_mut(&self.at) else { return };
        entry.holders -= 1;
        if entry.holders == 0 {
            known.remove(&self.at);
        }
    }
}

/// Reads an address as proxies write it: with or without a port, with or without brackets.
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
