//! The claims that are read before the signature is verified.
//!
//! They are only the claims that decide whether verification is needed. Invariant: the first claims
//! of a token use about as much memory as its text, because the sender is not trusted yet. For
//! example, a list within a list is skipped.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// The maximum number of texts in a list that is the value of a claim, for example of the audiences
/// of a token. A longer list counts as malformed.
pub const AUDIENCES_MAX: usize = 64;

/// The claims of a token that are read before its signature is verified.
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

/// The value of a claim that is read before the signature of the token is verified.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum FirstClaim {
    /// The token does not have the claim.
    #[default]
    Absent,
    /// The value has a type that none of these claims may have, or is a list that is too long. It
    /// is not stored.
    Other,
    /// The value is a text.
    Text(String),
    /// The value is a number, here without its fraction. For example, a time in seconds since 1970.
    Whole(i64),
    /// The value is a list. These are its texts; its other elements are ignored.
    Texts(Vec<String>),
}

impl FirstClaim {
    /// Returns the value of the claim if it is a text; `None` for all other values.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            FirstClaim::Text(text) => Some(text),
            FirstClaim::Absent
            | FirstClaim::Other
            | FirstClaim::Whole(_)
            | FirstClaim::Texts(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for FirstClaim {
    fn deserialize<D: Deserializer<'de>>(claim: D) -> Result<FirstClaim, D::Error> {
        ClaimVisitor { lists: true }.deserialize(claim)
    }
}

/// Reads the value of a claim. If `lists` is false, a list is skipped and counts as `Other`: the
/// memory of nested lists would have no limit.
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
        // A nested list counts as too long, so its elements are skipped and not stored.
        let (mut texts, mut too_long) = (Vec::new(), !self.lists);
        while !too_long && let Some(one) = list.next_element_seed(ClaimVisitor { lists: false })? {
            too_long = texts.len() == AUDIENCES_MAX;
            if let FirstClaim::Text(text) = one {
                texts.push(text);
            }
        }
        // The parser requires that each element is consumed.
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
