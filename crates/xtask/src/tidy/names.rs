//! Public types of the same name, in two crates or in one.
//!
//! A reader who meets `Target` should not have to look up which one it is. The path of a type does
//! not count, only its name.

use std::collections::BTreeMap;

use super::outline::{Kind, Outline};

/// Where public types are defined, by name.
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

    /// The violations: names of more than one type, each with the places of those types.
    pub(super) fn violations(&self) -> Vec<String> {
        let twice = self.0.iter().filter(|(_, places)| places.len() > 1);
        twice
            .map(|(name, places)| format!("public types called {name}: {}", places.join(", ")))
            .collect()
    }
}

#[cfg(test)]
mod tests;
