//! A network of addresses in CIDR notation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Addresses that begin with the same bits: `10.0.0.0/8`, `fd00::/8`, or one address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Returns true if the network contains an address. IPv4 networks contain no IPv6 addresses,
    /// and the reverse.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (ours, all) = number(self.address);
        let (theirs, family) = number(address);
        // A shift by all bits overflows: `/0` contains all addresses.
        let differ = (ours ^ theirs).checked_shr(all - self.bits).unwrap_or(0);
        all == family && differ == 0
    }
}

/// Returns an address as a number, and the number of its bits.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), u32::BITS),
        IpAddr::V6(address) => (address.into(), u128::BITS),
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("{text:?} is not an address or network such as 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| wrong())?;
        let (_, all) = number(address);
        let bits = bits.unwrap_or(all);
        if bits > all {
            return Err(wrong());
        }
        Ok(Network { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Network, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
