//! The outline of a crate: the items, the imports and the used paths of each module, read from
//! tokens.
//!
//! For example, the file `use crate::b::B; pub struct A(B);` defines `A`, imports `crate::b::B` and
//! uses `B`. Items under `#[cfg(test)]` are left out. Macros are not expanded, so the outline does
//! not have the names that only an expansion contains.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tests_only::{is_for_tests, skip_item};

/// The index of a module in its [`Outline`].
pub(super) type ModuleIndex = usize;

/// All modules of one crate, except those for tests.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// The modules. The first one is the crate's root, and each module comes after its parent.
    pub(super) modules: Vec<Module>,
}

/// One module: a file, or a block in braces inside of a file.
#[derive(Debug)]
pub(super) struct Module {
    /// The path from the root, joined by `::`. The name of the root is `crate`.
    pub(super) name: String,
    /// The module that declares this one. The parent of the root is the root.
    pub(super) parent: ModuleIndex,
    /// The module of the file that contains this one. It differs from this one for a block in
    /// braces.
    pub(super) file: ModuleIndex,
    /// The modules that this one declares, with their names.
    pub(super) children: Vec<(String, ModuleIndex)>,
    /// The items that the module defines.
    pub(super) items: Vec<Item>,
    /// The imports and re-exports.
    pub(super) imports: Vec<Import>,
    /// The paths that the module's code uses.
    pub(super) paths: Vec<NamedPath>,
}

/// An item that a module defines.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// The kind of an item, as far as the rules need it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A struct, enum, trait or type that other crates can use.
    PublicType,
    /// A macro. Child modules use it without a path.
    Macro,
    Other,
}

/// An import or a re-export.
#[derive(Debug)]
pub(super) struct Import {
    /// The name in this module; `*` for all names of another module.
    pub(super) alias: String,
    pub(super) path: NamedPath,
    /// True for a re-export.
    pub(super) exported: bool,
}

/// A path as the source has it.
#[derive(Debug)]
pub(super) struct NamedPath {
    pub(super) parts: Vec<String>,
    pub(super) line: usize,
}

impl Outline {
    /// Reads a crate from its root file. Fails if a file does not exist or does not parse.
    pub(super) fn read(root: &Path) -> Result<Self> {
        Self::build(root, &|path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        })
    }

    /// Reads a crate. `text` returns the text of a file and fails if there is none.
    pub(super) fn build(root: &Path, text: &dyn Fn(&Path) -> Result<String>) -> Result<Self> {
        let mut outline = Self::default();
        let folder = root.parent().context("a file has a parent folder")?.to_owned();
        let place = outline.declare("crate", 0, 0);
        let mut files = vec![(place, root.to_owned(), folder)];
        while let Some((place, path, folder)) = files.pop() {
            let tokens = TokenStream::from_str(&text(&path)?)
                .map_err(|error| anyhow!("{} does not parse: {error}", path.display()))?;
            let mut found = Vec::new();
            Reader { outline: &mut outline, at: place, files: &mut found }.items(tokens);
            for child in found {
                let below = outline.below(place, child);
                let folder = folder.join(below);
                // Both forms of a module's file are valid: `a.rs` and `a/mod.rs`.
                let flat = folder.with_extension("rs");
                let path = if text(&flat).is_ok() { flat } else { folder.join("mod.rs") };
                files.push((child, path, folder));
            }
        }
        Ok(outline)
    }

    /// Adds a module and returns its index.
    fn declare(&mut self, name: &str, parent: ModuleIndex, file: ModuleIndex) -> ModuleIndex {
        let place = self.modules.len();
        // The name `crate` is not part of the paths of other modules.
        let full = match self.modules.get(parent) {
            Some(parent) if parent.name != "crate" => format!("{}::{name}", parent.name),
            _ => name.to_owned(),
        };
        if let Some(parent) = self.modules.get_mut(parent) {
            parent.children.push((name.to_owned(), place));
        }
        self.modules.push(Module {
            name: full,
            parent,
            file,
            children: Vec::new(),
            items: Vec::new(),
            imports: Vec::new(),
            paths: Vec::new(),
        });
        place
    }

    /// Returns the path of folders from a module to a module that it declares, with the names of
    /// blocks in braces between them.
    fn below(&self, place: ModuleIndex, child: ModuleIndex) -> PathBuf {
        let mut names = Vec::new();
        let mut at = child;
        while at != place {
            names.push(self.modules[at].name.rsplit("::").next().unwrap_or_default());
            at = self.modules[at].parent;
        }
        names.iter().rev().collect()
    }

    /// Returns the lowest module that contains both modules, and its two children that contain
    /// them. If one of the two is itself the lowest module, it takes the place of its child.
    pub(super) fn apart(
        &self,
        one: ModuleIndex,
        other: ModuleIndex,
    ) -> (ModuleIndex, (ModuleIndex, ModuleIndex)) {
        let (one, other) = (self.line(one), self.line(other));
        let shared = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let above = one[shared - 1];
        let part = |line: &[ModuleIndex]| line.get(shared).copied().unwrap_or(above);
        (above, (part(&one), part(&other)))
    }

    /// Returns the chain of modules from the crate's root through the ancestors of a module to the
    /// module itself.
    fn line(&self, place: ModuleIndex) -> Vec<ModuleIndex> {
        let mut line = vec![place];
        let mut at = place;
        while at != 0 {
            at = self.modules[at].parent;
            line.push(at);
        }
        line.reverse();
        line
    }

    /// Returns true if `outer` contains `inner`, at any depth.
    pub(super) fn contains(&self, outer: ModuleIndex, inner: ModuleIndex) -> bool {
        self.line(inner).contains(&outer)
    }
}

/// Reads the tokens of one file.
struct Reader<'a> {
    outline: &'a mut Outline,
    /// The module of the tokens.
    at: ModuleIndex,
    /// The declared modules that have their own files.
    files: &'a mut Vec<ModuleIndex>,
}

type Tokens = Peekable<IntoIter>;

impl Reader<'_> {
    /// Reads the items of a module.
    fn items(&mut self, tokens: TokenStream) {
        self.walk(tokens, true);
    }

    /// Reads tokens. With `at_items`, they are the items of a module; otherwise they are code
    /// inside of an item.
    fn walk(&mut self, tokens: TokenStream, at_items: bool) {
        let mut tokens = tokens.into_iter().peekable();
        let mut exported = None;
        // The token before an identifier decides if a path can begin with the identifier.
        let mut before = String::new();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) => {
                    if punct.as_char() == '#' {
                        self.attribute(&mut tokens);
                    }
                    let mark = punct.as_char();
                    if mark == ';' {
                        exported = None;
                    }
                    before = match before.as_str() {
                        ":" if mark == ':' => "::".to_owned(),
                        "." if mark == '.' => "..".to_owned(),
                        _ => mark.to_string(),
                    };
                }
                TokenTree::Group(group) => {
                    self.walk(group.stream(), false);
                    exported = None;
                    before.clear();
                }
                TokenTree::Literal(_) => before.clear(),
                TokenTree::Ident(ident) => {
                    let word = ident.to_string();
                    let line = ident.span().start().line;
                    // Fields, methods, later parts of a path and lifetimes do not begin a path.
                    if matches!(before.as_str(), "." | "::" | "'") {
                        before = word;
                        continue;
                    }
                    match word.as_str() {
                        "pub" => exported = Some(visibility(&mut tokens)),
                        "use" => self.import(&mut tokens, exported.take().is_some(), line),
                        "mod" => {
                            exported = None;
                            self.module(&mut tokens);
                        }
                        "const" if before == "*" => {}
                        _ => {
                            let public = exported == Some(Visibility::Public);
                            if let Some((name, kind)) = item(&word, public, &mut tokens) {
                                exported = None;
                                self.define(name, kind, at_items);
                            } else {
                                self.path(word.clone(), &before, &mut tokens, line);
                            }
                        }
                    }
                    before = word;
                }
            }
        }
    }

    /// Reads an attribute behind `#`. If the attribute is for tests only, skips the item.
    fn attribute(&mut self, tokens: &mut Tokens) {
        let inner = matches!(tokens.peek(), Some(TokenTree::Punct(it)) if it.as_char() == '!');
        if inner {
            tokens.next();
        }
        let Some(TokenTree::Group(group)) = tokens.next_if(
            |it| matches!(it, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket),
        ) else {
            return;
        };
        if !inner && is_for_tests(group.stream()) {
            skip_item(tokens);
        } else {
            self.walk(group.stream(), false);
        }
    }

    /// Reads a module behind `mod`.
    fn module(&mut self, tokens: &mut Tokens) {
        let Some(TokenTree::Ident(name)) = tokens.next_if(|it| matches!(it, TokenTree::Ident(_)))
        else {
            return;
        };
        let file = self.outline.modules[self.at].file;
        let place = self.outline.declare(&name.to_string(), self.at, file);
        match tokens.next() {
            Some(TokenTree::Group(group)) => {
                let outer = std::mem::replace(&mut self.at, place);
                self.items(group.stream());
                self.at = outer;
            }
            _ => {
                self.outline.modules[place].file = place;
                self.files.push(place);
            }
        }
    }

    /// Adds an item. In code inside of an item, only public types are added, because a macro may
    /// define the types in its arguments.
    fn define(&mut self, name: Option<String>, kind: Kind, at_items: bool) {
        if let Some(name) = name.filter(|_| at_items || kind == Kind::PublicType) {
            self.outline.modules[self.at].items.push(Item { name, kind });
        }
    }

    /// Reads a path that begins with `first`.
    fn path(&mut self, first: String, before: &str, tokens: &mut Tokens, line: usize) {
        let mut parts = vec![first];
        while let Some(next) = next_part(tokens) {
            parts.push(next);
        }
        // A single word may be a field, a variable or the name of a new method. It counts as a path
        // if it begins with a capital or is called.
        let called = match tokens.peek() {
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
            Some(TokenTree::Punct(mark)) => mark.as_char() == '!',
            _ => false,
        };
        let looks_global = parts[0].starts_with(char::is_uppercase) || called;
        if parts.len() > 1 || (looks_global && before != "fn") {
            self.outline.modules[self.at].paths.push(NamedPath { parts, line });
        }
    }

    /// Reads an import behind `use`.
    fn import(&mut self, tokens: &mut Tokens, exported: bool, line: usize) {
        if matches!(tokens.peek(), Some(TokenTree::Punct(mark)) if mark.as_char() == '<') {
            return; // `use<…>` lists the captures of an opaque type
        }
        let mut tree = Vec::new();
        while let Some(token) =
            tokens.next_if(|it| !matches!(it, TokenTree::Punct(mark) if mark.as_char() == ';'))
        {
            tree.push(token);
        }
        let mut found = Vec::new();
        branches(tree.into_iter().collect(), &[], &mut found);
        self.outline.modules[self.at].imports.extend(
            found.into_iter().map(|(alias, parts)| Import {
                alias,
                path: NamedPath { parts, line },
                exported,
            }),
        );
    }
}

/// Returns the name and kind of the item that `word` begins, or `None` if it begins none. The name
/// is `None` if another keyword follows, as in `const fn`.
fn item(word: &str, public: bool, tokens: &mut Tokens) -> Option<(Option<String>, Kind)> {
    let kind = match word {
        "struct" | "enum" | "trait" | "type" if public => Kind::PublicType,
        "struct" | "enum" | "trait" | "type" | "union" | "fn" | "const" | "static" => Kind::Other,
        "macro_rules" => Kind::Macro,
        _ => return None,
    };
    if kind == Kind::Macro {
        tokens.next_if(|it| matches!(it, TokenTree::Punct(mark) if mark.as_char() == '!'));
    }
    tokens.next_if(|it| matches!(it, TokenTree::Ident(word) if word == "mut"));
    let name = match tokens.peek() {
        Some(TokenTree::Ident(name)) => name.to_string(),
        _ if word == "union" => return None, // `union` can also be a name
        _ => return Some((None, kind)),
    };
    if matches!(name.as_str(), "fn" | "unsafe" | "async" | "extern") {
        return Some((None, kind));
    }
    tokens.next();
    Some((Some(name), kind))
}

/// The visibility of an item.
#[derive(Debug, Eq, PartialEq)]
enum Visibility {
    /// `pub`: visible in other crates if the module is public.
    Public,
    /// `pub(…)`: visible in a part of this crate.
    Restricted,
}

/// Reads the rest of a visibility behind `pub`.
fn visibility(tokens: &mut Tokens) -> Visibility {
    let narrowed = tokens.next_if(
        |it| matches!(it, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis),
    );
    if narrowed.is_some() { Visibility::Restricted } else { Visibility::Public }
}

/// Returns the next part of a path if `::` and a word follow.
fn next_part(tokens: &mut Tokens) -> Option<String> {
    let mut ahead = tokens.clone();
    for _ in 0..2 {
        ahead.next_if(|it| matches!(it, TokenTree::Punct(mark) if mark.as_char() == ':'))?;
    }
    let TokenTree::Ident(word) = ahead.next()? else { return None };
    *tokens = ahead;
    Some(word.to_string())
}

/// Collects the names in a tree of imports, each with its path.
fn branches(tree: TokenStream, above: &[String], found: &mut Vec<(String, Vec<String>)>) {
    let mut tokens = tree.into_iter().peekable();
    while tokens.peek().is_some() {
        let mut parts = above.to_vec();
        let mut alias = None;
        let mut leaf = true;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    alias = tokens.next().map(|it| it.to_string());
                }
                TokenTree::Ident(word) => parts.push(word.to_string()),
                TokenTree::Group(group) => {
                    branches(group.stream(), &parts, found);
                    leaf = false;
                }
                TokenTree::Punct(mark) if mark.as_char() == ',' => break,
                TokenTree::Punct(mark) if mark.as_char() == '*' => alias = Some("*".to_owned()),
                TokenTree::Punct(mark) if mark.as_char() == ':' && parts.is_empty() => {
                    parts.push(String::new()); // a path from the extern prelude, as `::std`
                    tokens.next();
                }
                _ => {}
            }
        }
        if !leaf {
            continue;
        }
        // `use a::{self}` imports `a`.
        if parts.len() > 1 && parts.last().is_some_and(|last| last == "self") {
            parts.pop();
        }
        if let Some(alias) = alias.or_else(|| parts.last().cloned()) {
            found.push((alias, parts));
        }
    }
}
