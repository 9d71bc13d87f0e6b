//! Ranges of IP addresses, for example `10.0.0.0/8`.

// From `core`, because `std::net` also has sockets, and this crate does no I/O.
use core::net::IpAddr;

/// A range of addresses: `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    /// The length of the network prefix in bits: at most 32 for IPv4, 128 for IPv6.
    prefix_bits: u32,
}

impl Network {
    /// Parses an IP address, which is a range of one, or a range in CIDR notation. Bits behind the
    /// prefix are ignored. Returns `None` for other text.
    pub(crate) fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let all_bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            None => all_bits,
            // `parse` alone would accept a sign, which CIDR notation does not have.
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            Some(_) => return None,
        };
        (prefix_bits <= all_bits).then_some(Network { address, prefix_bits })
    }

    /// Returns true if the range contains the address. An IPv4 address in IPv6 notation
    /// (`::ffff:192.0.2.1`) counts as the IPv4 address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                // A shift by all bits leaves nothing to compare: `/0` contains every address.
                let beyond = 32 - self.prefix_bits;
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(beyond).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let beyond = 128 - self.prefix_bits;
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(beyond).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// Returns true if S3 does not regard the range as public. S3 blocks "very broad IP ranges":
    /// those wider than /8 in IPv4 and /32 in IPv6.
    pub(crate) fn is_narrow(&self) -> bool {
        self.prefix_bits >= if self.address.is_ipv4() { 8 } else { 32 }
    }
}
