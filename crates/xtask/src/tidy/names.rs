//! Finds public types that have the same name.
//!
//! A reader must know a type by its name alone. For example, two public types `Span` in two crates,
//! or in two modules of one crate, are an error.

use std::collections::BTreeMap;

use super::outline::{Kind, Outline};

/// The places of public types, by name.
#[derive(Debug, Default)]
pub(super) struct PublicTypes(BTreeMap<String, Vec<String>>);

impl PublicTypes {
    /// Adds the public types of a crate.
    pub(super) fn add(&mut self, package: &str, outline: &Outline) {
        for module in &outline.modules {
            for item in module.items.iter().filter(|it| it.kind == Kind::PublicType) {
                let place = match module.name.as_str() {
                    "crate" => package.to_owned(),
                    below => format!("{package}::{below}"),
                };
                self.0.entry(item.name.clone()).or_default().push(place);
            }
        }
    }

    /// Returns the names that more than one type has, each with the places of the types.
    pub(super) fn violations(&self) -> Vec<String> {
        let twice = self.0.iter().filter(|(_, places)| places.len() > 1);
        twice
            .map(|(name, places)| {
                format!("several public types have the name {name}: {}", places.join(", "))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
