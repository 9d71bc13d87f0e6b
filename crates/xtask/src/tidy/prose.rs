//! The countable marks of unclear English, in comments of crates and in pages.
//!
//! A unit is the sources of one crate without its tests, or one page. Each unit is held to the
//! limits of the table in `docs/STYLE.md`. Fenced code, rows of tables and text in backticks are
//! not counted. Limits are for 10,000 words (or for all sentences) and are rounded up, so a unit of
//! 4,000 words may have one mark where 10,000 words may have one, and none more. Examples are
//! rounded down: a unit of 4,000 words needs none by the rate, but each unit of more than 1,000
//! words needs one.
//!
//! For example, a sentence that opens with `What is written` has two marks: the opener, and a
//! clause without a noun. The rule cannot know if a text without marks is clear.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::comments::Source;
use super::markdown::{Block, Kind, blocks};

/// Names of units, that is, crates or pages, that do not hold the limits yet. A unit in this list
/// that holds them is an error, so that the list only shrinks.
const NOT_YET: &[&str] = &[];

/// The name under which an error reports the share of plain `//` comments, which is computed for
/// the whole workspace.
const WORKSPACE: &str = "workspace";

/// Words behind `what` that make a clause without a noun.
const HEADLESS: [&str; 14] = [
    "is", "was", "are", "were", "has", "had", "it", "they", "comes", "came", "goes", "lies",
    "stands", "becomes",
];

/// Words that open a sentence only if it is a question. They begin with a capital there.
const OPENERS: [&str; 4] = ["What", "Who", "Whoever", "Whose"];

/// The number of words and of lines to which limits refer.
const PER: usize = 10_000;

/// A unit, that is, a crate or page, of more words than this needs at least one example.
const NEEDS_EXAMPLE: usize = 1000;

/// Examples in 10,000 words, at least.
const EXAMPLES: usize = 2;

/// Plain comments in 100 source lines of the workspace, at least.
const PLAIN_PERCENT: usize = 2;

/// Places that an error names.
const PLACES_SHOWN: usize = 3;

/// A mark of unclear English that is counted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Mark {
    Headless,
    Opener,
    Whoever,
    Nobody,
    Tell,
}

impl Mark {
    const ALL: [Self; 5] = [Self::Headless, Self::Opener, Self::Whoever, Self::Nobody, Self::Tell];

    /// Returns the name of the mark in errors and in the table.
    fn name(self) -> &'static str {
        match self {
            Self::Headless => "what is/was/it",
            Self::Opener => "opening What/Who/Whose",
            Self::Whoever => "whoever/whatever",
            Self::Nobody => "nobody/somebody",
            Self::Tell => "tell/told",
        }
    }

    /// Returns the most of them in 10,000 words, or in 10,000 sentences for [`Mark::Opener`].
    fn limit(self) -> usize {
        match self {
            Self::Headless => 3,
            Self::Opener => 30,
            Self::Whoever | Self::Nobody => 1,
            Self::Tell => 2,
        }
    }

    /// Returns the mark of a single word, which is in lower case; `None` if it is no mark by
    /// itself.
    fn of_word(word: &str) -> Option<Self> {
        match word {
            "whoever" | "whatever" | "whichever" | "whomever" => Some(Self::Whoever),
            "nobody" | "somebody" => Some(Self::Nobody),
            "tell" | "tells" | "told" | "telling" => Some(Self::Tell),
            _ => None,
        }
    }
}

/// The counts of one unit, that is, of the comments of one crate or of one page: words, sentences,
/// examples, and the places of each mark.
#[derive(Debug, Default)]
struct Counts {
    words: usize,
    sentences: usize,
    examples: usize,
    marks: BTreeMap<Mark, Vec<String>>,
}

/// The counts of all units.
#[derive(Debug, Default)]
pub(super) struct Prose {
    units: BTreeMap<String, Counts>,
    /// Lines of sources, and those of them with a plain comment.
    lines: usize,
    plain_lines: usize,
}

/// A word of the English text of a block, with its place in it.
#[derive(Debug)]
struct Word<'a> {
    text: &'a str,
    /// The line of the word within its block, from 0.
    line: usize,
    /// The text between the word before it and itself.
    gap: &'a str,
}

impl Prose {
    /// Adds a source file of a crate. `path` is for messages.
    pub(super) fn add_source(&mut self, unit: &str, path: &str, text: &str, source: &Source) {
        self.lines += text.lines().count();
        let mut plain: Vec<usize> =
            source.comments.iter().filter(|it| it.plain).map(|it| it.line).collect();
        // A line with two comments counts once.
        plain.dedup();
        self.plain_lines += plain.len();
        let counts = self.units.entry(unit.to_owned()).or_default();
        // Comments of different kinds, and comments with code between them, do not continue each
        // other.
        let runs = source.comments.chunk_by(|one, next| {
            one.line + 1 == next.line && one.plain == next.plain && !next.after_code
        });
        for run in runs {
            let lines = run.iter().map(|it| (it.line, it.text.as_str()));
            blocks(lines).iter().for_each(|block| counts.add(path, block));
        }
    }

    /// Adds a page.
    pub(super) fn add_page(&mut self, path: &str, page: &[Block]) {
        let counts = self.units.entry(path.to_owned()).or_default();
        page.iter().for_each(|block| counts.add(path, block));
    }

    /// Returns an error for each unit, that is, crate or page, that breaks a limit and is not in
    /// `NOT_YET`, and for each unit of `NOT_YET` that holds all limits.
    pub(super) fn violations(&self) -> Vec<String> {
        self.violations_but(NOT_YET)
    }

    fn violations_but(&self, not_yet: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        let mut held = vec![(WORKSPACE, self.share_of_plain().into_iter().collect::<Vec<_>>())];
        held.extend(self.units.iter().map(|(unit, counts)| (unit.as_str(), counts.violations())));
        for (unit, errors) in &held {
            match (not_yet.contains(unit), errors.is_empty()) {
                (false, _) => found.extend(errors.iter().map(|error| format!("{unit}: {error}"))),
                // Otherwise the unit could exceed the limits again without an error.
                (true, true) => found.push(format!(
                    "{unit} holds the limits of prose: take it off NOT_YET in tidy/prose.rs"
                )),
                (true, false) => {}
            }
        }
        let known = |unit: &str| held.iter().any(|(name, _)| *name == unit);
        let strange = not_yet.iter().filter(|unit| !known(unit));
        found.extend(strange.map(|unit| format!("{unit} in NOT_YET is neither crate nor page")));
        found
    }

    fn share_of_plain(&self) -> Option<String> {
        let (plain, lines) = (self.plain_lines, self.lines);
        (plain * 100 < lines * PLAIN_PERCENT).then(|| {
            format!("{plain} of {lines} lines have plain comments, at least {PLAIN_PERCENT} % must")
        })
    }

    /// Returns the counts of all units as a table. A `!` marks a count beyond its limit.
    pub(super) fn table(&self) -> String {
        let mut table = format!("{:<36}{:>7}{:>7}", "unit", "words", "sent.");
        for mark in Mark::ALL {
            let _ = write!(table, "{:>24}", mark.name());
        }
        let _ = writeln!(table, "{:>14}", "for example");
        for (unit, counts) in &self.units {
            let _ = write!(table, "{unit:<36}{:>7}{:>7}", counts.words, counts.sentences);
            for mark in Mark::ALL {
                let (count, allowed) = (counts.count(mark), counts.allowed(mark));
                let beyond = if count > allowed { "!" } else { "" };
                let _ = write!(table, "{:>24}", format!("{beyond}{count} of {allowed}"));
            }
            let required = counts.required_examples();
            let beyond = if counts.examples < required { "!" } else { "" };
            let _ = writeln!(table, "{:>14}", format!("{beyond}{} of {required}", counts.examples));
        }
        let _ = write!(table, "lines with plain comments: {}", self.plain_lines);
        let _ = write!(table, " of {} source lines, at least {PLAIN_PERCENT} %", self.lines);
        table
    }
}

impl Counts {
    fn add(&mut self, path: &str, block: &Block) {
        if !matches!(block.kind, Kind::Prose | Kind::Heading) {
            return;
        }
        let english = block.english();
        let words = words(&english);
        self.words += words.len();
        let mut mark = |mark: Mark, word: &Word<'_>| {
            let shown = block.text.lines().nth(word.line).unwrap_or_default();
            let place = format!("{path}:{}: {}", block.line + word.line, shown.trim());
            self.marks.entry(mark).or_default().push(place);
        };
        for (index, word) in words.iter().enumerate() {
            let lower = word.text.to_ascii_lowercase();
            // Punctuation between two words separates them, as in "what, is".
            let next = words.get(index + 1).filter(|next| next.gap.trim().is_empty());
            let next = next.map(|next| next.text.to_ascii_lowercase()).unwrap_or_default();
            if lower == "what" && HEADLESS.contains(&next.as_str()) {
                mark(Mark::Headless, word);
            }
            if let Some(found) = Mark::of_word(&lower) {
                mark(found, word);
            }
            if lower == "for" && matches!(next.as_str(), "example" | "instance") {
                self.examples += 1;
            }
        }
        self.examples += english.matches("e.g.").count();
        // Very short sentences are labels, such as "Reads:".
        for sentence in sentences(&words, &english).into_iter().filter(|it| it.words.len() > 2) {
            self.sentences += 1;
            let first = &sentence.words[0];
            if OPENERS.contains(&first.text) && !sentence.is_question {
                mark(Mark::Opener, first);
            }
        }
    }

    fn count(&self, mark: Mark) -> usize {
        self.marks.get(&mark).map_or(0, Vec::len)
    }

    /// Returns the most marks of a kind that the unit may have.
    fn allowed(&self, mark: Mark) -> usize {
        let size = if mark == Mark::Opener { self.sentences } else { self.words };
        (mark.limit() * size).div_ceil(PER)
    }

    /// Returns the fewest examples that the unit may have.
    fn required_examples(&self) -> usize {
        let floor = usize::from(self.words > NEEDS_EXAMPLE);
        (EXAMPLES * self.words / PER).max(floor)
    }

    fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (mark, places) in &self.marks {
            let (count, allowed) = (places.len(), self.allowed(*mark));
            if count <= allowed {
                continue;
            }
            let mut error = format!("{count} of {}, at most {allowed}", mark.name());
            for place in places.iter().take(PLACES_SHOWN) {
                let _ = write!(error, "\n    {place}");
            }
            found.push(error);
        }
        let required = self.required_examples();
        if self.examples < required {
            found.push(format!("{} of \"for example\", at least {required}", self.examples));
        }
        found
    }
}

/// Returns the words of a text.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '\'';
    let (mut end, mut line) = (0, 0);
    while let Some(begin) = text[end..].find(is_letter).map(|at| end + at) {
        let gap = &text[end..begin];
        let length = text[begin..].find(|letter| !is_letter(letter));
        let next = length.map_or(text.len(), |length| begin + length);
        line += gap.matches('\n').count();
        found.push(Word { text: &text[begin..next], line, gap });
        end = next;
    }
    found
}

struct Sentence<'a> {
    words: &'a [Word<'a>],
    is_question: bool,
}

/// Cuts the words of `text` into sentences, at a `.`, `!`, `?` or `:` before white space.
fn sentences<'a>(words: &'a [Word<'a>], text: &str) -> Vec<Sentence<'a>> {
    let chunks = words.chunk_by(|_, next| !ends_sentence(next.gap));
    let mut found: Vec<Sentence<'a>> =
        chunks.map(|words| Sentence { words, is_question: false }).collect();
    // The mark that ends a sentence is in the gap before the next word.
    for index in 1..found.len() {
        found[index - 1].is_question = found[index].words[0].gap.contains('?');
    }
    if let Some(last) = found.last_mut() {
        last.is_question =
            text.trim_end_matches(|it: char| !it.is_alphanumeric() && it != '?').ends_with('?');
    }
    found
}

/// Returns true if the text between two words ends a sentence.
fn ends_sentence(gap: &str) -> bool {
    gap.find(['.', '!', '?', ':']).is_some_and(|at| gap[at..].contains(char::is_whitespace))
}

#[cfg(test)]
mod tests;
