//! Rules for the names that a source file uses. They are read from tokens, so comments and strings
//! do not count.
//!
//! For example, `use std::fs::File;` in a pure crate is an error, and `"std::fs"` in a string is
//! none.

use std::iter::Peekable;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::dependencies::{BELOW_VIEWS, PURE};
use super::naming::is_empty_name;

/// Modules of the standard library with I/O, threads or clocks.
const OUTSIDE: [&str; 5] = ["fs", "net", "process", "thread", "time"];

/// The functions of the crate `time` that read the clock. The rest of that crate is arithmetic.
const CLOCKS: [&str; 2] = ["now_utc", "now_local"];

/// The types of `hashing` that a pure crate may use. They only compute; the rest has threads and a
/// clock.
const PURE_HASHING: [&str; 3] = ["CrcCombiner", "Crc", "Md5"];

/// The allowed task-locals, each with its crate: the costs of an operation, its place in the queue
/// of contention over several tries, and the HTTP/2 stream of a task.
const TASK_LOCALS: [(&str, &str); 3] =
    [("session", "COST"), ("session", "PLACE"), ("edge", "FLOW")];

/// The most columns of a line of a comment. `cargo fmt` has the same limit for code. Rows of tables
/// and blocks in fences may be longer.
const COLUMNS_MAX: usize = 100;

/// Types and macros that create a global value at its first use.
const LAZY: [&str; 6] =
    ["LazyLock", "LazyCell", "OnceLock", "OnceCell", "lazy_static", "thread_local"];

/// Crates that may open a volume without its upkeep. `admin` does so for commands that need none,
/// and `gateway` in a module of tests.
const MAY_OPEN_VOLUME: [&str; 4] = ["volume", "maintained", "admin", "gateway"];

/// Crates that may read environment variables. Tests may do so in all crates.
const MAY_USE_ENV: [&str; 5] = ["server", "xtask", "tests", "benches", "databases"];

/// Macros and functions that write to the terminal.
const PRINTING: [&str; 7] = ["print", "println", "eprint", "eprintln", "dbg", "stdout", "stderr"];

/// Crates of HTTP. The crates below all views do not name them. They still reach them through
/// others: blocks move over HTTP, and `s3` has values of it.
const HTTP: [&str; 3] = ["http", "hyper", "hyper_util"];

/// As [`HTTP`], for `identity`: it verifies the signatures of headers, and reads no connection.
const CONNECTIONS: [&str; 2] = ["hyper", "hyper_util"];

/// Marks of unfinished work. They are concatenated here, so that this file does not contain them.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// A line number and the error in that line.
type Finding = (usize, String);

/// Returns the errors of one file. `package` is the crate of the file.
pub(super) fn violations(text: &str, package: &str, is_test: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| UNFINISHED.contains(word)) {
            found.push((number + 1, format!("{word}: finish the work or remove it")));
        }
    }
    found.extend(wide_comments(text));
    match TokenStream::from_str(text) {
        Ok(tokens) => {
            let rules = Rules {
                task_locals_of: (!is_test).then_some(package),
                pure: PURE.contains(&package) && !is_test,
                env: MAY_USE_ENV.contains(&package) || is_test,
                lazy: matches!(package, "server" | "xtask") || is_test,
                forbidden_http: match package {
                    _ if is_test => &[],
                    "identity" => &CONNECTIONS,
                    _ if BELOW_VIEWS.contains(&package) => &HTTP,
                    _ => &[],
                },
                volume_open_error: (!MAY_OPEN_VOLUME.contains(&package) && !is_test)
                    .then_some("a process opens a volume with its upkeep: MaintainedVolume"),
                forbidden_printing: if package == "admin" && !is_test { &PRINTING } else { &[] },
            };
            rules.walk(tokens, &mut found);
        }
        Err(error) => found.push((error.span().start().line, format!("does not parse: {error}"))),
    }
    found
}

/// Returns the lines of comments that are longer than [`COLUMNS_MAX`].
fn wide_comments(text: &str) -> Vec<Finding> {
    let (mut found, mut in_fence) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_fence = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        in_fence ^= comment.starts_with("```");
        if line.chars().count() > COLUMNS_MAX && !in_fence && !comment.starts_with('|') {
            found.push((number + 1, format!("a comment has at most {COLUMNS_MAX} columns")));
        }
    }
    found
}

/// The rules for the names that one source file uses.
struct Rules<'a> {
    /// The crate whose list of task-locals holds; `None` allows all task-locals.
    task_locals_of: Option<&'a str>,
    /// True if I/O, threads and clocks are forbidden.
    pure: bool,
    /// True if the environment is allowed.
    env: bool,
    /// True if lazy globals are allowed.
    lazy: bool,
    /// Names that are forbidden because they are crates of HTTP.
    forbidden_http: &'static [&'static str],
    /// The error of a call of `Volume::open`; `None` allows it.
    volume_open_error: Option<&'static str>,
    /// Names that are forbidden because they print.
    forbidden_printing: &'static [&'static str],
}

impl Rules<'_> {
    /// Checks tokens and all groups inside of them.
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
                        found.push((
                            line,
                            "an ignored test is not allowed, because it tests nothing".to_owned(),
                        ));
                    }
                    self.walk(inner, found);
                    // A block in braces ends the item in which `static` occurred.
                    in_static = in_static && group.delimiter() != Delimiter::Brace;
                    after_mod = false;
                }
                TokenTree::Ident(ident) => {
                    let (name, line) = (ident.to_string(), ident.span().start().line);
                    if after_mod && is_empty_name(&name) {
                        found.push((line, format!("the name of module {name} has no meaning")));
                    }
                    if matches!(name.as_str(), "std" | "hashing" | "Volume") {
                        for used in path_heads(&mut tokens) {
                            self.check_used(&name, &used, line, found);
                        }
                    }
                    if self.pure && CLOCKS.contains(&name.as_str()) {
                        found.push((line, format!("a pure crate does not use {name}")));
                    }
                    if let Some(package) = self.task_locals_of.filter(|_| name == "task_local") {
                        check_task_locals(package, &mut tokens, found);
                    }
                    if self.forbidden_printing.contains(&name.as_str()) {
                        found.push((line, "admin must not print".to_owned()));
                    }
                    if self.forbidden_http.contains(&name.as_str()) {
                        found.push((line, format!("a crate below all views does not use {name}")));
                    }
                    // A type is an error in a static only. A field of this type is no global value.
                    let macro_made = matches!(name.as_str(), "lazy_static" | "thread_local");
                    if !self.lazy && LAZY.contains(&name.as_str()) && (in_static || macro_made) {
                        found.push((
                            line,
                            format!("{name} makes a lazy global; pass the value instead"),
                        ));
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

    /// Checks a part of `std`, `hashing` or the type `Volume` that the file uses.
    fn check_used(&self, of: &str, used: &str, line: usize, found: &mut Vec<Finding>) {
        let outside = match of {
            "std" => OUTSIDE.contains(&used),
            "hashing" => !PURE_HASHING.contains(&used),
            _ => false,
        };
        if self.pure && outside {
            found.push((line, format!("a pure crate does not use {of}::{used}")));
        }
        if !self.env && of == "std" && used == "env" {
            found.push((line, "only server, xtask and tests read the environment".to_owned()));
        }
        if let Some(error) = self.volume_open_error.filter(|_| of == "Volume" && used == "open") {
            found.push((line, error.to_owned()));
        }
    }
}

/// Checks the task-locals that a call of `task_local!` defines. The tokens are those behind its
/// name.
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
            found.push((line, format!("{name} is a task-local; pass the value instead")));
        }
        after_static = name == "static";
    }
}

/// Returns the next part of a path behind the name of a crate or type, or of each path in a list in
/// braces.
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
            // Only the first name of each path in the braces counts, as `net` in
            // `{fmt, net::TcpStream}`.
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

/// Returns true if the first token is this name.
fn starts_with(tokens: &TokenStream, name: &str) -> bool {
    let first = tokens.clone().into_iter().next();
    matches!(first, Some(TokenTree::Ident(ident)) if ident == name)
}
