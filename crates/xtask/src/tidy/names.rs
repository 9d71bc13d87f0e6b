//! Public types of the same name, in two crates or in one.
//!
//! A reader who meets `Target` should not have to look up which one it is. The path of a type does
//! not count, only its name.

use std::collections::BTreeMap;

use super::outline::{Kind, Outline};

/// Names that more than one type still has.
pub(super) const NOT_YET: [&str; 0] = [];

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

    /// The violations: names of more than one type that are not in `not_yet`, and names in
    /// `not_yet` of fewer than two.
    pub(super) fn judge(&self, not_yet: &[&str]) -> Vec<String> {
        let twice = self.0.iter().filter(|(_, places)| places.len() > 1);
        let wrong = twice.filter(|(name, _)| !not_yet.contains(&name.as_str()));
        let wrong = wrong
            .map(|(name, places)| format!("public types called {name}: {}", places.join(", ")));
        let done = not_yet.iter().filter(|name| self.0.get(**name).is_none_or(|it| it.len() < 2));
        let done = done.map(|name| {
            format!(
                "{name} is the name of one public type now, take it off the list in tidy/names.rs"
            )
        });
        wrong.chain(done).collect()
    }
}

#[cfg(test)]
mod tests;
