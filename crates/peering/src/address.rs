//! The addresses at which a session is reached, as its record lists them.
//!
//! An address is `unix:` with the user id of the process and the absolute path of its socket file,
//! or `tcp:` and a host with a port. For example, a gateway with a listener announces
//! `unix:0:/var/lib/ashlar/peer-0123456789abcdef.sock` and `tcp:10.0.0.7:9703`.
//!
//! Records may hold any text. An address of another form is ignored, and a Unix address leads only
//! to files with the name of a peer socket. So a record cannot direct a session to other sockets.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::socket_file::is_socket_name;

/// The most addresses of one session that a dialer tries.
pub const ADDRESSES_MAX: usize = 8;

/// The longest address that a dialer uses, in bytes.
const ADDRESS_BYTES_MAX: usize = 5_000;

/// The most addresses of interfaces that a session announces for one listener.
const INTERFACE_ADDRESSES_MAX: usize = 6;

const UNIX: &str = "unix:";
const TCP: &str = "tcp:";

/// A parsed address of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A socket file.
    Unix {
        /// The effective user of the process that listens there.
        owner: u32,
        /// The absolute path.
        path: PathBuf,
    },
    /// A host and port, in the form that the resolver takes.
    Tcp(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix { owner, path } => write!(f, "{UNIX}{owner}:{}", path.display()),
            Address::Tcp(host_port) => write!(f, "{TCP}{host_port}"),
        }
    }
}

impl Address {
    /// Returns the address with this text, or `None` for a text of another form.
    pub(crate) fn parse(text: &str) -> Option<Address> {
        if text.len() > ADDRESS_BYTES_MAX || text.contains('\0') {
            return None;
        }
        if let Some((owner, path)) = text.strip_prefix(UNIX).and_then(|rest| rest.split_once(':')) {
            let (owner, path) = (owner.parse().ok()?, PathBuf::from(path));
            let is_socket = path.file_name()?.to_str().is_some_and(is_socket_name);
            return (path.is_absolute() && is_socket).then_some(Address::Unix { owner, path });
        }
        let host_port = text.strip_prefix(TCP)?;
        is_host_port(host_port).then(|| Address::Tcp(host_port.to_owned()))
    }
}

/// Returns the addresses that a dialer tries, in its order: socket files of this machine, then TCP.
pub(crate) fn in_order(reach: &[String]) -> Vec<Address> {
    let parsed = reach.iter().filter_map(|text| Address::parse(text)).take(ADDRESSES_MAX);
    let (unix, tcp): (Vec<_>, Vec<_>) = parsed.partition(|it| matches!(it, Address::Unix { .. }));
    let is_here = |it: &Address| matches!(it, Address::Unix { path, .. } if path.exists());
    unix.into_iter().filter(is_here).chain(tcp).collect()
}

/// Returns true for a host and a port other than 0, for example `gateway-1:9703` or `[::1]:9703`.
pub(crate) fn is_host_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|ip| ip.parse::<IpAddr>().is_ok()),
        None => !host.is_empty() && !host.contains([':', '/', '@', ' ']),
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// Returns the address of a socket file of this process, or `None` if the path is not UTF-8.
pub(crate) fn unix(path: &Path) -> Option<String> {
    let owner = rustix::process::geteuid().as_raw();
    path.to_str().map(|path| format!("{UNIX}{owner}:{path}"))
}

/// Returns the texts of a TCP listener's addresses: the announced host and port, or the address of
/// the listener. A listener on all interfaces has the addresses of the interfaces.
pub(crate) fn tcp(listener: SocketAddr, announced: Option<&str>) -> Vec<String> {
    if let Some(announced) = announced {
        return vec![format!("{TCP}{announced}")];
    }
    let port = listener.port();
    let ips = if listener.ip().is_unspecified() {
        of_interfaces(listener.is_ipv4())
    } else {
        vec![listener.ip()]
    };
    ips.into_iter().map(|ip| format!("{TCP}{}", SocketAddr::new(ip, port))).collect()
}

/// Returns the addresses of the interfaces that are up, without those that other machines cannot
/// use. Returns the loopback address if there are no others.
fn of_interfaces(only_v4: bool) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    // Without the list of interfaces, the sessions of this machine are still reached.
    for interface in getifaddrs().into_iter().flatten() {
        let Some(address) = interface.address else { continue };
        let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        let v6 = address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip()));
        let Some(ip) = v4.or(if only_v4 { None } else { v6 }) else { continue };
        let is_up = interface.flags.contains(InterfaceFlags::IFF_UP);
        if is_up && leads_here_from_elsewhere(ip) && !found.contains(&ip) {
            found.push(ip);
        }
    }
    // IPv4 first, because more networks carry it.
    found.sort_by_key(IpAddr::is_ipv6);
    found.truncate(INTERFACE_ADDRESSES_MAX);
    if found.is_empty() {
        found.push(IpAddr::from([127, 0, 0, 1]));
    }
    found
}

fn leads_here_from_elsewhere(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || is_link_local)
}

#[cfg(test)]
mod tests;
