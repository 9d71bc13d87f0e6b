//! The modules of a crate, read from its tokens: what each one defines, imports and names.
//!
//! Items under `#[cfg(test)]` are left out. Macros are not expanded, so what only an expansion
//! defines or names is not seen.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tests_only::{is_for_tests, skip_item};

/// The index of a module in its [`Outline`].
pub(super) type ModuleIndex = usize;

/// All modules of one crate that are not for tests.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// The first one is the crate's root. Every module comes after its parent.
    pub(super) modules: Vec<Module>,
}

/// One module: a file, or braces within one.
#[derive(Debug)]
pub(super) struct Module {
    /// Its path below the root, joined by `::`; the root's is `crate`.
    pub(super) name: String,
    /// The module that declares it; the root is its own.
    pub(super) parent: ModuleIndex,
    /// The module whose file contains it: itself, unless it is written in braces.
    pub(super) file: ModuleIndex,
    /// The modules that it declares, by name.
    pub(super) children: Vec<(String, ModuleIndex)>,
    /// What it defines.
    pub(super) items: Vec<Item>,
    /// What it imports or exports once more.
    pub(super) imports: Vec<Import>,
    /// What its code names elsewhere.
    pub(super) paths: Vec<Named>,
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
    /// A struct, enum, trait or type that other crates may see.
    PublicType,
    /// A macro: modules below see it without naming its path.
    Macro,
    Other,
}

/// A name that a module takes from elsewhere.
#[derive(Debug)]
pub(super) struct Import {
    /// What it is called here; `*` for all names of a module.
    pub(super) alias: String,
    pub(super) path: Named,
    /// Others may take it from here.
    pub(super) exported: bool,
}

/// A path as it is written.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) parts: Vec<String>,
    pub(super) line: usize,
}

impl Outline {
    /// Reads a crate from its root file on.
    pub(super) fn read(root: &Path) -> Result<Self> {
        Self::build(root, &|path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        })
    }

    /// Reads a crate whose files `text` knows, which fails for a file that is not there.
    pub(super) fn build(root: &Path, text: &dyn Fn(&Path) -> Result<String>) -> Result<Self> {
        let mut outline = Self::default();
        let folder = root.parent().context("a file lies in a folder")?.to_owned();
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
                let flat = folder.with_extension("rs");
                let path = if text(&flat).is_ok() { flat } else { folder.join("mod.rs") };
                files.push((child, path, folder));
            }
        }
        Ok(outline)
    }

    fn declare(&mut self, name: &str, parent: ModuleIndex, file: ModuleIndex) -> ModuleIndex {
        let place = self.modules.len();
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

    /// The folders from a module down to one that it declares, maybe within braces.
    fn below(&self, place: ModuleIndex, child: ModuleIndex) -> PathBuf {
        let mut names = Vec::new();
        let mut at = child;
        while at != place {
            names.push(self.modules[at].name.rsplit("::").next().unwrap_or_default());
            at = self.modules[at].parent;
        }
        names.iter().rev().collect()
    }

    /// The lowest module that contains two modules, and its children that contain each of them: or
    /// itself, if it is one of the two.
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

    /// The modules that one lies in, from the root down to itself.
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

    /// Whether `inner` lies in `outer`, at any depth.
    pub(super) fn contains(&self, outer: ModuleIndex, inner: ModuleIndex) -> bool {
        self.line(inner).contains(&outer)
    }
}

/// Reads the tokens of one file.
struct Reader<'a> {
    outline: &'a mut Outline,
    /// The module that the tokens belong to.
    at: ModuleIndex,
    /// Modules that were declared and have a file of their own.
    files: &'a mut Vec<ModuleIndex>,
}

type Tokens = Peekable<IntoIter>;

impl Reader<'_> {
    /// Items of a module.
    fn items(&mut self, tokens: TokenStream) {
        self.walk(tokens, true);
    }

    /// `at_items`: the tokens are items of the module; else they are code within one.
    fn walk(&mut self, tokens: TokenStream, at_items: bool) {
        let mut tokens = tokens.into_iter().peekable();
        let mut exported = None;
        // What stands before an identifier says whether a path can begin with it.
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
                            let public = exported == Some(Visibility::Everybody);
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

    /// Behind `#`: an attribute, and with it the item if that is for tests only.
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

    /// Behind `mod`.
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

    /// An item. Among code only public types count: a macro is given them to define.
    fn define(&mut self, name: Option<String>, kind: Kind, at_items: bool) {
        if let Some(name) = name.filter(|_| at_items || kind == Kind::PublicType) {
            self.outline.modules[self.at].items.push(Item { name, kind });
        }
    }

    /// A path that begins with `first`.
    fn path(&mut self, first: String, before: &str, tokens: &mut Tokens, line: usize) {
        let mut parts = vec![first];
        while let Some(next) = next_part(tokens) {
            parts.push(next);
        }
        // A word alone may be the name of a field, a variable or a method that is being made. It
        // counts if it is a type's or is called.
        let called = match tokens.peek() {
            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
            Some(TokenTree::Punct(mark)) => mark.as_char() == '!',
            _ => false,
        };
        let looks_global = parts[0].starts_with(char::is_uppercase) || called;
        if parts.len() > 1 || (looks_global && before != "fn") {
            self.outline.modules[self.at].paths.push(Named { parts, line });
        }
    }

    /// Behind `use`.
    fn import(&mut self, tokens: &mut Tokens, exported: bool, line: usize) {
        if matches!(tokens.peek(), Some(TokenTree::Punct(mark)) if mark.as_char() == '<') {
            return; // what an opaque type captures
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
                path: Named { parts, line },
                exported,
            }),
        );
    }
}

/// The name and kind of the item that `word` begins, if it begins one. Some have no name here.
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
        _ if word == "union" => return None, // it is a name, too
        _ => return Some((None, kind)),
    };
    if matches!(name.as_str(), "fn" | "unsafe" | "async" | "extern") {
        return Some((None, kind));
    }
    tokens.next();
    Some((Some(name), kind))
}

/// Who may see an item.
#[derive(Debug, Eq, PartialEq)]
enum Visibility {
    /// Other crates, if its module lets them.
    Everybody,
    /// Some of the crate.
    Within,
}

/// Behind `pub`.
fn visibility(tokens: &mut Tokens) -> Visibility {
    let narrowed = tokens.next_if(
        |it| matches!(it, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis),
    );
    if narrowed.is_some() { Visibility::Within } else { Visibility::Everybody }
}

/// The next part of a path, if `::` and a word follow.
fn next_part(tokens: &mut Tokens) -> Option<String> {
    let mut ahead = tokens.clone();
    for _ in 0..2 {
        ahead.next_if(|it| matches!(it, TokenTree::Punct(mark) if mark.as_char() == ':'))?;
    }
    let TokenTree::Ident(word) = ahead.next()? else { return None };
    *tokens = ahead;
    Some(word.to_string())
}

/// The names that a tree of imports brings, each with its path.
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
                    parts.push(String::new()); // from the root of all crates
                    tokens.next();
                }
                _ => {}
            }
        }
        if !leaf {
            continue;
        }
        if parts.len() > 1 && parts.last().is_some_and(|last| last == "self") {
            parts.pop();
        }
        if let Some(alias) = alias.or_else(|| parts.last().cloned()) {
            found.push((alias, parts));
        }
    }
}
