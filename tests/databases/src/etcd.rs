//! The command line of a member of etcd.
//!
//! Each member has the flags that Ashlar needs, which docs/METADATA.md explains. A member listens
//! for other members at another loopback address, so one free port is enough for it.
//!
//! For example, a member that is alone has itself as its initial cluster.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use crate::program::{program, succeeds};

/// Largest number of operations of one transaction that a member allows.
const TXN_OPS: &str = "--max-txn-ops=8448";

/// Largest request that a member allows, in bytes.
const REQUEST_BYTES: &str = "--max-request-bytes=10485760";

/// Bytes of the database from which a member refuses writes: 8 GiB.
const QUOTA: &str = "--quota-backend-bytes=8589934592";

/// Transactions after which a member writes a snapshot and drops its log, as in etcd 3.6.
const SNAPSHOT_COUNT: &str = "--snapshot-count=10000";

/// Returns the URL at which a member listens for other members.
fn peer_url(address: SocketAddr) -> String {
    format!("http://{}:{}", Ipv4Addr::new(127, 0, 0, 2), address.port())
}

/// Returns the argument that names all members of a cluster.
pub(crate) fn initial_cluster(members: &[SocketAddr]) -> String {
    let member = |&it: &SocketAddr| format!("{}={}", name(it), peer_url(it));
    format!("--initial-cluster={}", members.iter().map(member).collect::<Vec<_>>().join(","))
}

/// Returns the name of a member in its cluster.
fn name(address: SocketAddr) -> String {
    format!("m{}", address.port())
}

/// Adds the arguments of a member that is alone.
pub(crate) fn sole_member(command: &mut Command, folder: &Path, address: SocketAddr) {
    let (client, peer) = (format!("http://{address}"), peer_url(address));
    command.arg(format!("--data-dir={}", folder.join("data").display()));
    command.args(["--name", &name(address)]);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args([&initial_cluster(&[address]), "--initial-cluster-state=new"]);
    command.args([TXN_OPS, REQUEST_BYTES, QUOTA, SNAPSHOT_COUNT]);
    command.args(["--auto-compaction-mode=periodic", "--auto-compaction-retention=1h"]);
    command.arg("--logger=zap");
}

/// Returns true if a member answers a linearizable read.
pub(crate) fn is_healthy(address: SocketAddr) -> bool {
    let mut command = etcdctl(&[address]);
    command.args(["--dial-timeout=1s", "--command-timeout=2s", "endpoint", "health"]);
    succeeds(command)
}

/// Returns a command for members.
pub(crate) fn etcdctl(members: &[SocketAddr]) -> Command {
    let mut command = program("etcdctl");
    let members: Vec<String> = members.iter().map(ToString::to_string).collect();
    command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", members.join(",")));
    command
}
