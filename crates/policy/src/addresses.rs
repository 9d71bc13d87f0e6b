//! Networks of IP addresses.

// `std::net` has sockets, too.
use core::net::IpAddr;

/// A range of addresses: `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    /// At most the bits of the address.
    prefix_bits: u32,
}

impl Network {
    /// Reads an address, or a range in CIDR notation. Bits beyond the prefix do not count.
    pub(crate) fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let all_bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            None => all_bits,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            Some(_) => return None,
        };
        (prefix_bits <= all_bits).then_some(Network { address, prefix_bits })
    }

    /// Whether the address lies within. An IPv4 address that is written as IPv6 is the IPv4 one.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let beyond = 32 - self.prefix_bits;
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(beyond).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let beyond = 128 - self.prefix_bits;
                let differ = network.to_bits() ^ address.to_bits();
                differ.checked_shr(beyond).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Whether S3 takes the range for a few known senders, not for the public: it blocks "very
    /// broad IP ranges", those wider than /8 of IPv4 and /32 of IPv6.
    pub(crate) fn is_narrow(&self) -> bool {
        self.prefix_bits >= if self.address.is_ipv4() { 8 } else { 32 }
    }
}
