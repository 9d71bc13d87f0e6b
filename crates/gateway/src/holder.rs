//! The memory holder of a request: its host, its account and its access key. A budget of memory
//! limits each of them to a share, a part of the budget, while other holders wait.
//!
//! The shares keep one client from taking all memory, even if it uses many hosts or many access
//! keys of one account. For example, one access key holds at most an eighth of a budget while
//! others wait. The share of an account is a limit only while several accounts wait, because a
//! volume often has a single one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

use content::{MemoryHolder, SHARE_PARTS, Share};
use identity::{ClientAddress, Identity};

/// The part of a budget that the requests of one host may hold while others wait, in units of which
/// a whole budget has `SHARE_PARTS`.
const HOST_PARTS: u64 = SHARE_PARTS / 2;

/// The part of a budget that all access keys of one account may hold together while other accounts
/// wait, in the same unit.
const ACCOUNT_PARTS: u64 = SHARE_PARTS / 2;

/// The part of a budget that one access key may hold while others wait, in the same unit.
const IDENTITY_PARTS: u64 = SHARE_PARTS / 8;

/// The number of leading bits of an IPv6 address that identify a host.
const HOST_BITS_V6: u32 = 64;

/// Returns the memory holder for a client and the identity that signed the request.
pub(crate) fn holder(client: Option<ClientAddress>, identity: Option<&Identity>) -> MemoryHolder {
    let host = client.map(|client| share(("host", host(client.address)), HOST_PARTS));
    let account = identity.map(|identity| {
        let account = identity.account.to_string();
        share(("account", account), ACCOUNT_PARTS)
    });
    let key = identity.map(|identity| share(("key", &identity.access_key), IDENTITY_PARTS));
    MemoryHolder::new(host.into_iter().chain(key)).in_group(account)
}

fn host(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            // A client usually controls a whole /64 network, so it counts as one host.
            let network = u128::from(address) >> HOST_BITS_V6 << HOST_BITS_V6;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

fn share(key: impl Hash, parts: u64) -> Share {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    Share { key: hasher.finish(), parts }
}
