//! The names in pages: each path, link, test, metric, variable and command that a page names
//! exists. Marks of merge conflicts are errors, too.
//!
//! A path in backticks may be short: `commit.rs` or `volume/src/tests/commit.rs` names each file
//! whose path ends so. In a path, `*` replaces a part of a name and `…` replaces folders. Words
//! such as `NAME` are placeholders. Pages of other projects cannot be checked, so a link with a
//! scheme is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::commands::Program;
use super::comments;
use super::markdown::{Block, Kind, Span, blocks};

/// Extensions of names in backticks that must be files of this repository.
const CHECKED_ENDS: [&str; 5] = [".rs", ".md", ".py", ".toml", ".patch"];

/// Extensions of other files whose words count as names of the sources.
const FILES_WITH_NAMES: [&str; 6] = ["py", "toml", "sql", "yaml", "sh", "txt"];

/// Folders of a crate that pages name.
const CRATE_FOLDERS: [&str; 4] = ["src", "tests", "benches", "examples"];

/// A name in lower case with at least this number of underscores must occur in the sources.
const WORDS_OF_SENTENCE: usize = 3;

/// Words that a reader of a page replaces.
const PLACEHOLDERS: [&str; 6] = ["NAME", "TARGET", "ENGINE", "VERSION", "FILE", "X"];

/// Suffixes that are not in the sources. The encoder of metrics adds a suffix for the type of a
/// metric, and each variable with a secret also exists as a variable with the path of a file.
const ADDED_ENDS: [&str; 5] = ["_total", "_bucket", "_sum", "_count", "_FILE"];

/// The label of a list of tests, which takes the rest of its paragraph.
const TESTS: &str = "*Tests:*";

/// The page of style quotes unclear and invented names as examples.
const STYLE: &str = "docs/STYLE.md";

/// The page of changes. It may name items of the past that do not exist any more.
const CHANGES: &str = "CHANGELOG.md";

/// A page of the repository.
#[derive(Debug)]
pub(super) struct Page {
    /// Its path from the root of the repository.
    pub(super) path: String,
    pub(super) blocks: Vec<Block>,
}

/// The names that pages may use.
#[derive(Debug, Default)]
pub(super) struct Repository {
    /// The paths of all files and folders from the root.
    paths: BTreeSet<String>,
    /// All words of the code, without comments.
    words: BTreeSet<String>,
    /// All string literals that are one word.
    literals: BTreeSet<String>,
    /// All functions in Rust and Python, each with the paths of the files that define it.
    functions: BTreeMap<String, BTreeSet<String>>,
    /// The anchors of each page.
    anchors: BTreeMap<String, BTreeSet<String>>,
    /// The workspace's own packages.
    members: BTreeSet<String>,
    /// Our programs.
    programs: Vec<Program>,
}

impl Page {
    fn parse(path: &str, text: &str) -> Self {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        Self { path: path.to_owned(), blocks: blocks(lines) }
    }

    /// True if the page must not have marks of unclear English.
    pub(super) fn is_prose(&self) -> bool {
        self.path != CHANGES
    }
}

/// Reads the pages: those at the root, and all below `docs`.
pub(super) fn read_pages(root: &Path) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for path in files_below(root)? {
        let place = relative(root, &path);
        let at_root = !place.contains('/');
        let is_page = path.extension().is_some_and(|it| it == "md");
        if is_page && (at_root || place.starts_with("docs/")) {
            pages.push(Page::parse(&place, &read(&path)?));
        }
    }
    Ok(pages)
}

impl Repository {
    /// Reads the names of a checkout.
    pub(super) fn read(
        root: &Path,
        members: impl Iterator<Item = String>,
        pages: &[Page],
        programs: Vec<Program>,
    ) -> Result<Self> {
        let mut names = Self { members: members.collect(), programs, ..Self::default() };
        for path in files_below(root)? {
            let place = relative(root, &path);
            let end = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            if end == "rs" {
                names.add_code(&place, &comments::read(&read(&path)?).code, "fn");
            } else if FILES_WITH_NAMES.contains(&end.as_str()) {
                names.add_code(&place, &read(&path)?, "def");
            }
            names.add_path(&place);
        }
        for page in pages {
            names.anchors.insert(page.path.clone(), anchors(page));
        }
        Ok(names)
    }

    fn add_path(&mut self, place: &str) {
        let folders = place.match_indices('/').map(|(at, _)| place[..at].to_owned());
        self.paths.extend(folders);
        self.paths.insert(place.to_owned());
    }

    /// Adds the words of a file. `keyword` is the word before the name of a function.
    fn add_code(&mut self, place: &str, code: &str, keyword: &str) {
        self.literals.extend(code.split('"').filter(|it| is_identifier(it)).map(str::to_owned));
        let mut before = "";
        for word in code.split(|letter: char| !is_word(letter)).filter(|word| !word.is_empty()) {
            if before == keyword {
                self.functions.entry(word.to_owned()).or_default().insert(place.to_owned());
            }
            // Most words occur often, so look before making a copy.
            if !self.words.contains(word) {
                self.words.insert(word.to_owned());
            }
            before = word;
        }
    }

    /// Returns an error for each path, link, test, metric, variable or command that a page names
    /// and that does not exist.
    pub(super) fn violations(&self, page: &Page) -> Vec<String> {
        // A page of changes describes past versions: their files and options may be gone.
        if page.path == CHANGES {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut report = |line: usize, error: String| {
            found.push(format!("{}:{line}: {error}", page.path));
        };
        for block in &page.blocks {
            for (index, _) in block.text.lines().enumerate().filter(|(_, it)| is_conflict(it)) {
                report(block.line + index, "a merge conflict is not resolved".to_owned());
            }
            if let Kind::Code(language) = &block.kind {
                self.check_code(block, language, &mut report);
                continue;
            }
            for link in block.links() {
                if let Some(error) = self.broken_link(&page.path, &link.text) {
                    report(link.line, error);
                }
            }
            // The page of style quotes examples in its tables.
            if page.path != STYLE || block.kind != Kind::Row {
                self.check_spans(&page.path, block, &mut report);
            }
        }
        found
    }

    /// Checks the texts in backticks of a block. A list of tests names a file or folder, and then
    /// the tests in it.
    fn check_spans(&self, page: &str, block: &Block, report: &mut impl FnMut(usize, String)) {
        let before_tests = block.text.split_once(TESTS).map(|(before, _)| {
            let before = Block { text: before.to_owned(), ..block.clone() };
            before.code_spans().len()
        });
        let mut file: Option<String> = None;
        for (index, span) in block.code_spans().iter().enumerate() {
            let lists_tests = before_tests.is_some_and(|before| index >= before);
            let text = span.text.trim();
            let error = match self.wrong_span(page, span, lists_tests) {
                None if lists_tests => self.misplaced_test(file.as_deref(), text),
                error => error,
            };
            if let Some(error) = error {
                report(span.line, error);
            }
            if lists_tests && (self.looks_like_path(text) || code_path(text).is_some()) {
                file = Some(text.to_owned());
            }
        }
    }

    /// Checks commands in a block of shell code. Blocks of other languages show files and output.
    fn check_code(&self, block: &Block, language: &str, report: &mut impl FnMut(usize, String)) {
        if !matches!(language, "sh" | "bash" | "console") {
            return;
        }
        let mut command = String::new();
        for (index, line) in block.text.lines().enumerate() {
            // A command may continue on the next line.
            if let Some(part) = line.strip_suffix('\\') {
                command.push_str(part);
                continue;
            }
            command.push_str(line);
            let error = self.programs.iter().find_map(|it| it.wrong_call(called(&command)));
            if let Some(error) = error {
                report(block.line + index, error);
            }
            command.clear();
        }
    }

    /// The error of a text in backticks, if it names something that does not exist.
    fn wrong_span(&self, page: &str, span: &Span, lists_tests: bool) -> Option<String> {
        let text = span.text.trim();
        if let Some(error) = self.programs.iter().find_map(|program| program.wrong_call(text)) {
            return Some(error);
        }
        // Flags of other programs are in texts that begin with the program's name.
        if let Some(flag) = text.strip_prefix("--") {
            return self.wrong_flag(flag);
        }
        // The page of style shows names as they should be, of code that does not exist.
        let in_sources = page != STYLE;
        let words = text.split(|letter: char| !is_word(letter)).filter(|_| in_sources);
        if let Some(error) = words.into_iter().find_map(|word| self.wrong_name(word)) {
            return Some(error);
        }
        let is_lower = !text.contains(|it: char| it.is_ascii_uppercase());
        if in_sources && is_lower && is_identifier(text) && !text.starts_with("ashlar_") {
            if lists_tests && text.contains('_') {
                let missing = !self.functions.contains_key(text);
                return missing.then(|| format!("there is no test {text}"));
            }
            // Short names may be those of other projects, but a sentence is a name of ours.
            let missing = text.matches('_').count() >= WORDS_OF_SENTENCE && !self.has_word(text);
            return missing.then(|| format!("there is no {text} in the sources"));
        }
        if let Some(parts) = code_path(text).filter(|_| in_sources) {
            let missing = parts.into_iter().find(|part| !self.has_word(part))?;
            return Some(format!("{text}: there is no {missing} in the sources"));
        }
        let missing = self.looks_like_path(text) && !self.has_path(page, text);
        missing.then(|| format!("there is no file or folder {text}"))
    }

    /// A test in a list must be in the file or folder that the list names before it.
    fn misplaced_test(&self, file: Option<&str>, test: &str) -> Option<String> {
        let (file, places) = (file?, self.functions.get(test).filter(|_| test.contains('_'))?);
        let modules = code_path(file);
        let is_there = |place: &String| {
            let parts: Vec<&str> = place.split('/').collect();
            match &modules {
                // A module is a file or a folder.
                Some(modules) => modules
                    .iter()
                    .all(|module| parts.iter().any(|part| part.split('.').next() == Some(*module))),
                None => braces(file.trim_end_matches('/')).iter().any(|wanted| {
                    let wanted: Vec<&str> = wanted.split('/').collect();
                    let starts = 0..parts.len();
                    let ends = 1..=parts.len();
                    starts.into_iter().any(|start| {
                        ends.clone()
                            .any(|end| start < end && matches_parts(&wanted, &parts[start..end]))
                    })
                }),
            }
        };
        let place = places.iter().next()?;
        (!places.iter().any(is_there)).then(|| format!("{test} is not in {file}, but in {place}"))
    }

    /// Returns an error if a text in backticks is a flag alone, such as `--force`, and none of our
    /// programs has this flag.
    fn wrong_flag(&self, flag: &str) -> Option<String> {
        let flag = flag.split(['=', ' ']).next().unwrap_or_default();
        let known = self.programs.iter().any(|program| program.has_flag(flag));
        let open = flag.is_empty() || flag.contains('…');
        (!known && !open).then(|| format!("no program of ours has a flag --{flag}"))
    }

    /// Returns an error if a word is the name of a metric or of a variable and does not occur in
    /// the sources.
    fn wrong_name(&self, word: &str) -> Option<String> {
        if !word.starts_with("ashlar_") && !word.starts_with("ASHLAR_") {
            return None;
        }
        // `ashlar_cache_…` names all metrics that begin so.
        let known = if word.ends_with('_') {
            self.words.range(word.to_owned()..).next().is_some_and(|it| it.starts_with(word))
        } else {
            let mut forms = ADDED_ENDS.iter().filter_map(|end| word.strip_suffix(end));
            // The registry of metrics adds the prefix to some of them.
            let literal = |it: &str| {
                let short = it.strip_prefix("ashlar_");
                self.words.contains(it) || short.is_some_and(|it| self.literals.contains(it))
            };
            literal(word) || forms.any(literal)
        };
        (!known).then(|| format!("there is no {word} in the sources"))
    }

    fn has_word(&self, word: &str) -> bool {
        self.words.contains(word) || self.members.contains(&word.replace('_', "-"))
    }

    /// True if a text in backticks claims to be a path of this repository.
    fn looks_like_path(&self, text: &str) -> bool {
        let strange = [' ', ':', '<', '(', '"', '$', '=', '?', '@'];
        if text.contains(strange) || text.starts_with(['/', '~', '.', '*']) {
            return text.starts_with(".ci/");
        }
        let mut parts = text.split('/');
        let first = parts.next().unwrap_or_default();
        let Some(second) = parts.next() else {
            return CHECKED_ENDS.iter().any(|end| text.ends_with(end));
        };
        // These folders have fixed names, so a path that begins with one claims to exist.
        let at_root = matches!(first, "crates" | "docs" | "tests" | "benches" | "config");
        let in_crate = self.members.contains(first) && CRATE_FOLDERS.contains(&second);
        at_root || in_crate || CHECKED_ENDS.iter().any(|end| text.ends_with(end))
    }

    /// True if a path exists: from the page, from the root, or as the end of a longer path.
    fn has_path(&self, page: &str, text: &str) -> bool {
        let text = text.trim_end_matches('/');
        let near = joined(page, text).is_some_and(|path| self.paths.contains(&path));
        let exists = |wanted: &str| {
            let wanted: Vec<&str> = wanted.split('/').collect();
            self.paths.iter().any(|path| {
                let parts: Vec<&str> = path.split('/').collect();
                (0..parts.len()).any(|start| matches_parts(&wanted, &parts[start..]))
            })
        };
        near || braces(text).iter().all(|wanted| exists(wanted))
    }

    /// The error of a link, if its target does not exist.
    fn broken_link(&self, page: &str, target: &str) -> Option<String> {
        if target.contains("://") || target.starts_with("mailto:") {
            return None;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { page.to_owned() } else { joined(page, path)? };
        if !self.paths.contains(path.trim_end_matches('/')) {
            return Some(format!("the link to {target} leads nowhere"));
        }
        let anchors = self.anchors.get(&path).filter(|_| !anchor.is_empty())?;
        (!anchors.contains(anchor)).then(|| format!("{path} has no heading for #{anchor}"))
    }
}

/// True if a line is the first mark of a merge conflict. Rust sources with a mark do not parse.
fn is_conflict(line: &str) -> bool {
    line.starts_with("<<<<<<< ")
}

/// The part of a shell command that begins with the program, without variables and `sudo`.
fn called(command: &str) -> &str {
    let mut rest = command.trim();
    while let Some((word, behind)) = rest.split_once(char::is_whitespace) {
        let is_variable =
            word.contains('=') && word.starts_with(|it: char| it.is_ascii_uppercase());
        if !is_variable && word != "sudo" {
            break;
        }
        rest = behind.trim_start();
    }
    rest
}

/// The parts of a path of Rust, such as `store::Batch`.
fn code_path(text: &str) -> Option<Vec<&str>> {
    let text = text.split('(').next().unwrap_or_default().trim_end_matches('!');
    let parts: Vec<&str> = text.split("::").collect();
    (parts.len() > 1 && parts.iter().all(|part| is_identifier(part))).then_some(parts)
}

/// True if the parts of a path match a pattern of which each part may be a placeholder.
fn matches_parts(wanted: &[&str], parts: &[&str]) -> bool {
    match (wanted.split_first(), parts.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), _) => {
            (0..=parts.len()).any(|taken| matches_parts(rest, &parts[taken..]))
        }
        (Some((wanted, rest)), Some((part, others))) => {
            matches_name(wanted, part) && matches_parts(rest, others)
        }
        _ => false,
    }
}

/// True if a name matches a pattern with `*` or a placeholder in it.
fn matches_name(wanted: &str, name: &str) -> bool {
    let stem = wanted.split('.').next().unwrap_or_default();
    let word = stem.rsplit('-').next().unwrap_or_default();
    let pattern = if PLACEHOLDERS.contains(&word) {
        wanted.replacen(word, "*", 1)
    } else {
        wanted.to_owned()
    };
    match pattern.split_once('*') {
        Some((before, after)) => {
            name.len() >= before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
        }
        None => pattern == name,
    }
}

/// The paths that a path with braces means: `{one,two}.rs` is two files.
fn braces(text: &str) -> Vec<String> {
    match text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (inside, after))) => {
            inside.split(',').map(|part| format!("{before}{part}{after}")).collect()
        }
        None => vec![text.to_owned()],
    }
}

/// The path from the root of a path that is relative to a page; `None` if it is above the root.
fn joined(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Page) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for heading in page.blocks.iter().filter(|block| block.kind == Kind::Heading) {
        let mut anchor = String::new();
        for letter in heading.text.to_lowercase().chars() {
            match letter {
                ' ' => anchor.push('-'),
                letter if letter.is_alphanumeric() || "-_".contains(letter) => anchor.push(letter),
                _ => {}
            }
        }
        // A second heading of the same text gets a number.
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn is_identifier(text: &str) -> bool {
    text.chars().all(is_word) && text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
}

fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// All files below a folder, but not those of build folders and of Git.
fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            if !entry.file_type()?.is_dir() {
                found.push(path);
            } else if name != "target" && name != ".git" {
                folders.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
