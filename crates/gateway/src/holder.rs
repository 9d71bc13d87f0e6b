//! Who holds the memory that a request needs: its host, its account and its access key, each of
//! which has a share. So one client leaves memory to all others, from how many hosts or with how
//! many keys of one account it may come.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

use content::{MemoryHolder, SHARE_PARTS, Share};

use crate::access::Identity;
use crate::http::ClientAddress;

/// What one host may hold while others wait.
const HOST_PARTS: u64 = SHARE_PARTS / 2;

/// What the access keys of one account may hold together while others wait.
const ACCOUNT_PARTS: u64 = SHARE_PARTS / 2;

/// What one access key may hold while others wait.
const IDENTITY_PARTS: u64 = SHARE_PARTS / 4;

/// The bits of an IPv6 address that identify a host.
const HOST_BITS_V6: u32 = 64;

/// The holder for a client, with the identity that has signed the request.
pub(crate) fn holder(client: Option<ClientAddress>, identity: Option<&Identity>) -> MemoryHolder {
    let host = client.map(|client| share(("host", host(client.address)), HOST_PARTS));
    let account = identity.map(|identity| {
        let account = identity.account.to_string();
        share(("account", account), ACCOUNT_PARTS)
    });
    let key = identity.map(|identity| share(("key", &identity.access_key), IDENTITY_PARTS));
    MemoryHolder::new(host.into_iter().chain(account).chain(key))
}

fn host(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
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
