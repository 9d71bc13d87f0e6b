//! What a file may name, read from its tokens, so that comments and strings do not count.

use std::iter::Peekable;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::dependencies::PURE;
use super::naming::is_empty_name;

/// Parts of the standard library that are the outside world.
const OUTSIDE: [&str; 5] = ["fs", "net", "process", "thread", "time"];

/// What `time` reads the clock with; all else of it is arithmetic.
const CLOCKS: [&str; 2] = ["now_utc", "now_local"];

/// The part of `hashing` that a pure crate may name. These types only compute; the rest has threads
/// and a clock.
const PURE_HASHING: [&str; 3] = ["CrcCombiner", "Crc", "Md5"];

/// The only task-locals: the costs of an operation, and the HTTP/2 stream of a task.
const TASK_LOCALS: [(&str, &str); 2] = [("session", "COST"), ("server", "FLOW")];

/// Types that make a value global and late.
const LAZY: [&str; 6] =
    ["LazyLock", "LazyCell", "OnceLock", "OnceCell", "lazy_static", "thread_local"];

/// Crates that may read the environment. All tests may, too.
const MAY_USE_ENV: [&str; 5] = ["server", "xtask", "tests", "benches", "databases"];

/// What writes to a terminal, by itself or asked for.
const PRINTING: [&str; 7] = ["print", "println", "eprint", "eprintln", "dbg", "stdout", "stderr"];

/// Marks of unfinished work, put together so that this file does not carry them itself.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// A line number and what is wrong there.
type Finding = (usize, String);

/// The rules that one file breaks.
pub(super) fn violations(text: &str, package: &str, is_test: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| UNFINISHED.contains(word)) {
            found.push((number + 1, format!("{word}: finish it or leave it out")));
        }
    }
    match TokenStream::from_str(text) {
        Ok(tokens) => {
            let rules = Rules {
                task_locals_of: (!is_test).then_some(package),
                pure: PURE.contains(&package) && !is_test,
                env: MAY_USE_ENV.contains(&package) || is_test,
                lazy: matches!(package, "server" | "xtask") || is_test,
                unprinted: if package == "admin" && !is_test { &PRINTING } else { &[] },
            };
            rules.walk(tokens, &mut found);
        }
        Err(error) => found.push((error.span().start().line, format!("does not parse: {error}"))),
    }
    found
}

/// Which rules hold in a file.
struct Rules<'a> {
    /// Whose task-locals are checked.
    task_locals_of: Option<&'a str>,
    /// The outside world is forbidden.
    pure: bool,
    /// The environment is allowed.
    env: bool,
    /// Lazy globals are allowed.
    lazy: bool,
    /// Names that would print, where nothing is printed.
    unprinted: &'static [&'static str],
}

impl Rules<'_> {
    fn walk(&self, tokens: TokenStream, found: &mut Vec<Finding>) {
        let mut tokens = tokens.into_iter().peekable();
        let mut after_mod = false;
        let mut in_static = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => {
                    let inner = group.stream();
                    if group.delimiter() == Delimiter::Bracket && starts_with(&inner, "ignore") {
                        let line = group.span_open().start().line;
                        found.push((line, "an ignored test tests nothing".to_owned()));
                    }
                    self.walk(inner, found);
                    in_static = in_static && group.delimiter() != Delimiter::Brace;
                    after_mod = false;
                }
                TokenTree::Ident(ident) => {
                    let (name, line) = (ident.to_string(), ident.span().start().line);
                    if after_mod && is_empty_name(&name) {
                        found.push((line, format!("the name of module {name} says nothing")));
                    }
                    if matches!(name.as_str(), "std" | "hashing") {
                        for used in path_heads(&mut tokens) {
                            self.check_used(&name, &used, line, found);
                        }
                    }
                    if self.pure && CLOCKS.contains(&name.as_str()) {
                        found.push((line, format!("a pure crate knows no {name}")));
                    }
                    if let Some(package) = self.task_locals_of.filter(|_| name == "task_local") {
                        check_task_locals(package, &mut tokens, found);
                    }
                    if self.unprinted.contains(&name.as_str()) {
                        found.push((line, "admin prints nothing".to_owned()));
                    }
                    let macro_made = matches!(name.as_str(), "lazy_static" | "thread_local");
                    if !self.lazy && LAZY.contains(&name.as_str()) && (in_static || macro_made) {
                        found.push((line, format!("{name} makes a lazy global")));
                    }
                    in_static = in_static || name == "static";
                    after_mod = name == "mod";
                }
                TokenTree::Punct(punct) => {
                    in_static =
                        in_static && !matches!(punct.as_char(), '=' | ';' | ',' | '>' | ')');
                    after_mod = false;
                }
                TokenTree::Literal(_) => after_mod = false,
            }
        }
    }

    /// A part of `std` or `hashing` that is named.
    fn check_used(&self, of: &str, used: &str, line: usize, found: &mut Vec<Finding>) {
        let outside =
            if of == "std" { OUTSIDE.contains(&used) } else { !PURE_HASHING.contains(&used) };
        if self.pure && outside {
            found.push((line, format!("a pure crate does not use {of}::{used}")));
        }
        if !self.env && of == "std" && used == "env" {
            found.push((line, "only server reads the environment".to_owned()));
        }
    }
}

/// Behind `task_local`, if it is called: what it defines for a package.
fn check_task_locals(
    package: &str,
    tokens: &mut Peekable<impl Iterator<Item = TokenTree>>,
    found: &mut Vec<Finding>,
) {
    tokens.next_if(|it| matches!(it, TokenTree::Punct(mark) if mark.as_char() == '!'));
    let Some(TokenTree::Group(group)) = tokens.peek() else { return };
    let mut after_static = false;
    for token in group.stream() {
        let TokenTree::Ident(word) = token else { continue };
        let (name, line) = (word.to_string(), word.span().start().line);
        if after_static && !TASK_LOCALS.contains(&(package, name.as_str())) {
            found.push((line, format!("{name} is a task-local: pass it on instead")));
        }
        after_static = name == "static";
    }
}

/// After a crate's name: the next part of the path, or of each path in a braced list.
fn path_heads(tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) -> Vec<String> {
    for _ in 0..2 {
        match tokens.peek() {
            Some(TokenTree::Punct(punct)) if punct.as_char() == ':' => tokens.next(),
            _ => return Vec::new(),
        };
    }
    match tokens.peek() {
        Some(TokenTree::Ident(ident)) => vec![ident.to_string()],
        Some(TokenTree::Punct(punct)) if punct.as_char() == '*' => vec!["*".to_owned()],
        Some(TokenTree::Group(group)) => {
            let mut heads = Vec::new();
            let mut at_start = true;
            for token in group.stream() {
                match token {
                    TokenTree::Ident(ident) if at_start => {
                        heads.push(ident.to_string());
                        at_start = false;
                    }
                    TokenTree::Punct(punct) if punct.as_char() == ',' => at_start = true,
                    _ => {}
                }
            }
            heads
        }
        _ => Vec::new(),
    }
}

fn starts_with(tokens: &TokenStream, name: &str) -> bool {
    let first = tokens.clone().into_iter().next();
    matches!(first, Some(TokenTree::Ident(ident)) if ident == name)
}
