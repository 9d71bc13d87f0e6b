//! Finds circles: modules of one crate that use each other.
//!
//! An arrow leads from the file that names an item to the file that defines the item, also through
//! re-exports. Three things are no arrows: the declaration of a module, the re-export of an item of
//! a child module, and the call of a method, because the call does not name the type.
//!
//! A module includes its child modules when it is compared with its siblings. For example, if
//! `a::x` names an item of `b`, and `b` names an item of `a::y`, then `a` and `b` form a circle. A
//! module and its children also count as siblings.

use std::collections::{BTreeMap, BTreeSet};

use super::outline::{Kind, ModuleIndex, NamedPath, Outline};

/// Returns the circles of one crate, each as the list of its arrows.
pub(super) fn circles(outline: &Outline) -> Vec<String> {
    let mut levels: BTreeMap<ModuleIndex, BTreeMap<Ends, String>> = BTreeMap::new();
    for ((from, to), (name, line)) in arrows(outline) {
        // Arrows are compared between siblings, so both ends are raised to the children of the
        // lowest common module.
        let (above, ends) = outline.apart(from, to);
        let (from, to) = (&outline.modules[from].name, &outline.modules[to].name);
        let words = || format!("{from} -> {to} ({name}, line {line})");
        levels.entry(above).or_default().entry(ends).or_insert_with(words);
    }
    levels.values().flat_map(knots).collect()
}

/// The modules at the two ends of an arrow: from, to.
type Ends = (ModuleIndex, ModuleIndex);

/// Returns the circles among sibling modules, each as the texts of its arrows. An arrow leads from
/// a module to a module whose items it names; `arrows` has the text of each.
fn knots(arrows: &BTreeMap<Ends, String>) -> Vec<String> {
    let mut reached: BTreeMap<ModuleIndex, BTreeSet<ModuleIndex>> = BTreeMap::new();
    for &(from, _) in arrows.keys() {
        reached.entry(from).or_insert_with(|| reachable(from, arrows));
    }
    let leads =
        |from: ModuleIndex, to: ModuleIndex| reached.get(&from).is_some_and(|it| it.contains(&to));
    // A circle has several modules, but it is reported once.
    let mut reported: BTreeSet<ModuleIndex> = BTreeSet::new();
    let mut knots = Vec::new();
    // A module is in a circle if arrows lead from it back to itself.
    for &place in reached.keys().filter(|place| leads(**place, **place)) {
        if reported.contains(&place) {
            continue;
        }
        // Two modules are in the same circle if each reaches the other. Other arrows are left out.
        let knot = |other: ModuleIndex| leads(place, other) && leads(other, place);
        let within = arrows.iter().filter(|((from, to), _)| knot(*from) && knot(*to));
        let words = within.map(|((from, _), words)| {
            reported.insert(*from);
            words.as_str()
        });
        knots.push(words.collect::<Vec<_>>().join(", "));
    }
    knots
}

/// For each arrow between two files: the first name that makes the arrow, and its line.
type Arrows = BTreeMap<Ends, (String, usize)>;

/// Returns all arrows of a crate, that is, the pairs of files of which the first names an item of
/// the second.
fn arrows(outline: &Outline) -> Arrows {
    let mut arrows = Arrows::new();
    let names = Names { outline };
    for (at, module) in outline.modules.iter().enumerate() {
        let mut arrow = |named: &NamedPath, to: Option<ModuleIndex>| {
            if let Some(to) = to.map(|to| outline.modules[to].file).filter(|to| *to != module.file)
            {
                let name = named.parts.last().cloned().unwrap_or_default();
                arrows.entry((module.file, to)).or_insert((name, named.line));
            }
        };
        for import in &module.imports {
            let home = names.home(at, &import.path.parts);
            // A parent that re-exports an item of its child does not use the item itself.
            let contained = import.exported && home.is_some_and(|to| outline.contains(at, to));
            arrow(&import.path, home.filter(|_| !contained));
        }
        for path in &module.paths {
            arrow(path, names.home(at, &path.parts).or_else(|| names.macro_above(at, path)));
        }
    }
    arrows
}

/// Returns all modules that can be reached from `start` along one or more arrows. `start` is among
/// them if it is in a circle.
fn reachable(start: ModuleIndex, arrows: &BTreeMap<Ends, String>) -> BTreeSet<ModuleIndex> {
    let mut found = BTreeSet::new();
    let mut left = vec![start];
    while let Some(place) = left.pop() {
        for (_, to) in arrows.range((place, 0)..(place + 1, 0)).map(|(arrow, _)| *arrow) {
            if found.insert(to) {
                left.push(to);
            }
        }
    }
    found
}

/// The target of a path.
#[derive(Clone, Copy)]
enum Target {
    Module(ModuleIndex),
    /// An item, as the module that defines it.
    Item(ModuleIndex),
}

/// Finds the definitions of names.
struct Names<'a> {
    outline: &'a Outline,
}

/// The names that were looked up for one path: the module, the name, and true if the name was the
/// last part of the path. Imports can refer to each other in circles, so each name is looked up
/// once.
type Seen = BTreeSet<(ModuleIndex, String, bool)>;

impl Names<'_> {
    /// Returns the module that defines the item of a path. `None` if the item is in another crate,
    /// is local to a function, or is a module.
    fn home(&self, at: ModuleIndex, parts: &[String]) -> Option<ModuleIndex> {
        match self.follow(at, parts, &mut Seen::new())? {
            Target::Item(place) => Some(place),
            Target::Module(_) => None,
        }
    }

    /// Returns the parent module that defines the macro of this name. Such a macro needs no import.
    fn macro_above(&self, at: ModuleIndex, path: &NamedPath) -> Option<ModuleIndex> {
        let [name] = path.parts.as_slice() else { return None };
        let mut place = at;
        while place != 0 {
            place = self.outline.modules[place].parent;
            let mut items = self.outline.modules[place].items.iter();
            if items.any(|it| it.kind == Kind::Macro && it.name == *name) {
                return Some(place);
            }
        }
        None
    }

    /// Returns the target of a path that is written in the module `at`.
    fn follow(&self, at: ModuleIndex, parts: &[String], seen: &mut Seen) -> Option<Target> {
        let (first, rest) = parts.split_first()?;
        let rooted = matches!(first.as_str(), "crate" | "self" | "super");
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(at),
            "super" => Target::Module(self.outline.modules[at].parent),
            name => self.look_up(at, name, rest.is_empty(), seen)?,
        };
        for (index, part) in rest.iter().enumerate() {
            let Target::Module(place) = target else { break };
            target = match part.as_str() {
                "super" => Target::Module(self.outline.modules[place].parent),
                name => match self.look_up(place, name, index + 1 == rest.len(), seen) {
                    Some(found) => found,
                    // A macro may define the name in this module. An imported name is of another
                    // crate.
                    None if rooted && !self.imports(place, name) => Target::Item(place),
                    None => return None,
                },
            };
        }
        Some(target)
    }

    /// Returns the target of a name in a module. If a module and an item have the same name, the
    /// last part of a path means the item, and other parts mean the module.
    fn look_up(&self, at: ModuleIndex, name: &str, last: bool, seen: &mut Seen) -> Option<Target> {
        // A second lookup of the same name would not end.
        if !seen.insert((at, name.to_owned(), last)) {
            return None;
        }
        let module = &self.outline.modules[at];
        let defined = || module.items.iter().any(|it| it.name == name).then_some(Target::Item(at));
        let declared = || {
            let child = module.children.iter().find(|(child, _)| child == name);
            child.map(|(_, place)| Target::Module(*place))
        };
        let mut imported = || self.imported(at, name, seen);
        if last {
            defined().or_else(&mut imported).or_else(declared)
        } else {
            declared().or_else(&mut imported).or_else(defined)
        }
    }

    /// Returns the target of a name that the module imports, by itself or with `*`.
    fn imported(&self, at: ModuleIndex, name: &str, seen: &mut Seen) -> Option<Target> {
        let imports = &self.outline.modules[at].imports;
        let mut module = None;
        for import in imports.iter().filter(|it| it.alias == name) {
            match self.follow(at, &import.path.parts, seen) {
                Some(Target::Module(place)) => module = Some(Target::Module(place)),
                Some(item) => return Some(item),
                None => {}
            }
        }
        for import in imports.iter().filter(|it| it.alias == "*" && module.is_none()) {
            if let Some(Target::Module(place)) = self.follow(at, &import.path.parts, seen)
                && let Some(found) = self.look_up(place, name, true, seen)
            {
                return Some(found);
            }
        }
        module
    }

    /// Returns true if the module imports this name.
    fn imports(&self, at: ModuleIndex, name: &str) -> bool {
        self.outline.modules[at].imports.iter().any(|it| it.alias == name)
    }
}

#[cfg(test)]
mod tests;
