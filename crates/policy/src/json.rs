//! JSON as it was written: members in order, and none twice.
//!
//! Of two conditions with one name, a map would silently drop the first.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// `null`, which no part of a policy may be.
    Null,
    /// A text. Numbers and truths are texts as well, as in AWS's conditions.
    Text(String),
    /// A number or a truth, as text.
    Scalar(String),
    List(Vec<Node>),
    Members(Vec<(String, Node)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members: Vec<(String, Node)> = Vec::new();
        while let Some((name, node)) = map.next_entry::<String, Node>()? {
            if members.iter().any(|(other, _)| *other == name) {
                return Err(A::Error::custom(format_args!("{name:?} stands twice")));
            }
            members.push((name, node));
        }
        Ok(Node::Members(members))
    }
}

impl Node {
    /// One text, or a list of them. `None` for anything else.
    pub(crate) fn into_texts(self) -> Option<Vec<String>> {
        self.into_many(|node| match node {
            Node::Text(text) => Some(text),
            Node::Null | Node::Scalar(_) | Node::List(_) | Node::Members(_) => None,
        })
    }

    /// One text, number or truth, or a list of them. `None` for anything else.
    pub(crate) fn into_scalars(self) -> Option<Vec<String>> {
        self.into_many(|node| match node {
            Node::Text(text) | Node::Scalar(text) => Some(text),
            Node::Null | Node::List(_) | Node::Members(_) => None,
        })
    }

    fn into_many(self, one: impl Fn(Node) -> Option<String>) -> Option<Vec<String>> {
        match self {
            Node::List(nodes) => nodes.into_iter().map(one).collect(),
            Node::Null | Node::Text(_) | Node::Scalar(_) | Node::Members(_) => {
                one(self).map(|text| vec![text])
            }
        }
    }
}
