//! JSON values with the members of objects in their written order.
//!
//! The parser refuses an object with two members of one name. For example, a statement with two
//! members `Condition` is refused; a map would drop the first of them silently, and with it a
//! restriction.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value, whose objects keep their members in the written order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// `null`, which no element of a policy accepts.
    Null,
    /// A JSON string.
    Text(String),
    /// A number or a Boolean, as text: conditions accept both `"5"` and `5`.
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
                return Err(A::Error::custom(format_args!("the name {name:?} occurs twice")));
            }
            members.push((name, node));
        }
        Ok(Node::Members(members))
    }
}

impl Node {
    /// Returns the texts of a JSON string or of a list of strings. Returns `None` for other values.
    pub(crate) fn into_texts(self) -> Option<Vec<String>> {
        self.into_many(|node| match node {
            Node::Text(text) => Some(text),
            Node::Null | Node::Scalar(_) | Node::List(_) | Node::Members(_) => None,
        })
    }

    /// Returns the texts of a JSON string, number or Boolean, or of a list of these. Returns `None`
    /// for other values.
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
