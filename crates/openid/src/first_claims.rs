//! What is read of a token's claims before its signature is verified.
//!
//! That is what decides whether verifying is worth it, and no more: whatever else the token says, it
//! takes up about as much memory here as its text does. A stranger is not to choose how much.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// The most texts of a list that are looked at; a longer list says nothing.
pub const AUDIENCES_MAX: usize = 64;

/// The claims that every token is judged by.
#[derive(Deserialize)]
pub(crate) struct FirstClaims {
    #[serde(default)]
    pub(crate) iss: FirstClaim,
    #[serde(default)]
    pub(crate) aud: FirstClaim,
    #[serde(default)]
    pub(crate) sub: FirstClaim,
    #[serde(default)]
    pub(crate) exp: FirstClaim,
    #[serde(default)]
    pub(crate) nbf: FirstClaim,
    #[serde(default)]
    pub(crate) iat: FirstClaim,
}

/// One of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum FirstClaim {
    /// The token does not have it.
    #[default]
    Absent,
    /// It is nothing that any of them may be.
    Other,
    Text(String),
    /// A number without its fraction.
    Whole(i64),
    /// The texts of a list; what else it holds says nothing.
    Texts(Vec<String>),
}

impl FirstClaim {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            FirstClaim::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for FirstClaim {
    fn deserialize<D: Deserializer<'de>>(claim: D) -> Result<FirstClaim, D::Error> {
        ClaimVisitor { lists: true }.deserialize(claim)
    }
}

/// How a value is read. Lists within lists are passed over, or there would be no limit.
#[derive(Clone, Copy)]
struct ClaimVisitor {
    lists: bool,
}

impl<'de> DeserializeSeed<'de> for ClaimVisitor {
    type Value = FirstClaim;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<FirstClaim, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ClaimVisitor {
    type Value = FirstClaim;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a claim")
    }

    fn visit_unit<E: de::Error>(self) -> Result<FirstClaim, E> {
        Ok(FirstClaim::Other)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<FirstClaim, E> {
        Ok(FirstClaim::Other)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<FirstClaim, E> {
        Ok(FirstClaim::Whole(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<FirstClaim, E> {
        Ok(i64::try_from(number).map_or(FirstClaim::Other, FirstClaim::Whole))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<FirstClaim, E> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a fraction of a second does not count"
        )]
        Ok(FirstClaim::Whole(number as i64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<FirstClaim, E> {
        Ok(FirstClaim::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FirstClaim, A::Error> {
        let (mut texts, mut too_long) = (Vec::new(), !self.lists);
        while !too_long && let Some(one) = list.next_element_seed(ClaimVisitor { lists: false })? {
            too_long = texts.len() == AUDIENCES_MAX;
            if let FirstClaim::Text(text) = one {
                texts.push(text);
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(if too_long { FirstClaim::Other } else { FirstClaim::Texts(texts) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<FirstClaim, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(FirstClaim::Other)
    }
}

#[cfg(test)]
mod tests;
