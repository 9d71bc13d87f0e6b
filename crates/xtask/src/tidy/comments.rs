//! The comments of a Rust source, and its code without them.
//!
//! Token streams have no plain comments, so this module reads the text itself. It knows strings,
//! raw strings and character literals. For example, the `//` in `"https://host"` begins no comment.

use std::iter::Peekable;
use std::str::Chars;

/// The text of a Rust source, taken apart into comments and code.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The lines of comments, in their order.
    pub(super) comments: Vec<Comment>,
    /// The text without comments. Lines keep their numbers.
    pub(super) code: String,
}

/// One line of a comment.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Comment {
    /// The number of the line, from 1.
    pub(super) line: usize,
    /// The text behind the marker.
    pub(super) text: String,
    /// True for `//` and `/*`, false for documentation.
    pub(super) plain: bool,
    /// True if the line has code before the comment.
    pub(super) after_code: bool,
}

/// Takes the text of a Rust source apart into its comments and its code.
pub(super) fn read(text: &str) -> Source {
    let mut reader = Reader { rest: text.chars().peekable(), line: 1, found: Source::default() };
    reader.run();
    reader.found
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    /// The number of the line of the next character.
    line: usize,
    found: Source,
}

impl Reader<'_> {
    fn run(&mut self) {
        let mut before = ' ';
        while let Some(next) = self.take() {
            match next {
                '/' if self.rest.peek() == Some(&'/') => self.line_comment(),
                '/' if self.rest.peek() == Some(&'*') => self.block_comment(),
                '"' => self.string(),
                // `r` and `br` begin a raw string, but the last letter of a name does not.
                'r' if !is_word(before) || before == 'b' => self.raw_string(),
                '\'' => self.character(),
                other => self.found.code.push(other),
            }
            before = next;
        }
    }

    /// Takes the next character and counts lines.
    fn take(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.line += 1;
        }
        Some(next)
    }

    /// Takes the next character into the code.
    fn copy(&mut self) -> Option<char> {
        let next = self.take()?;
        self.found.code.push(next);
        Some(next)
    }

    /// True if the present line has code already.
    fn after_code(&self) -> bool {
        let line = self.found.code.rsplit('\n').next().unwrap_or_default();
        !line.trim().is_empty()
    }

    fn line_comment(&mut self) {
        let (line, after_code) = (self.line, self.after_code());
        let mut text = String::new();
        // The newline stays for the code.
        while let Some(next) = self.rest.next_if(|next| *next != '\n') {
            text.push(next);
        }
        let text = text.strip_prefix('/').unwrap_or(&text);
        // Four slashes are plain, three are documentation.
        let is_doc = text.starts_with('!') || (text.starts_with('/') && !text.starts_with("//"));
        let text = if is_doc { &text[1..] } else { text };
        self.found.comments.push(Comment {
            line,
            text: text.to_owned(),
            plain: !is_doc,
            after_code,
        });
    }

    fn block_comment(&mut self) {
        let (mut line, mut after_code) = (self.line, self.after_code());
        let mut text = String::new();
        let mut depth = 1;
        self.take();
        while depth > 0 {
            let Some(next) = self.take() else { break };
            match next {
                // Block comments of Rust can be nested.
                '/' if self.rest.peek() == Some(&'*') => depth += 1,
                '*' if self.rest.peek() == Some(&'/') => depth -= 1,
                '\n' => {
                    let text = std::mem::take(&mut text);
                    self.found.comments.push(Comment { line, text, plain: true, after_code });
                    self.found.code.push('\n');
                    (line, after_code) = (self.line, false);
                    continue;
                }
                other => {
                    text.push(other);
                    continue;
                }
            }
            // The second character of the marker.
            self.take();
        }
        self.found.comments.push(Comment { line, text, plain: true, after_code });
    }

    /// Copies the rest of a string literal to the code. The caller has taken its first quote.
    fn string(&mut self) {
        self.found.code.push('"');
        while let Some(next) = self.copy() {
            match next {
                '\\' => {
                    self.copy();
                }
                '"' => return,
                _ => {}
            }
        }
    }

    /// Copies the rest of a raw string to the code, if there is one. The caller has taken an `r`,
    /// which may also begin a name, such as `r#type`.
    fn raw_string(&mut self) {
        self.found.code.push('r');
        let mut hashes = 0;
        while self.rest.next_if_eq(&'#').is_some() {
            self.found.code.push('#');
            hashes += 1;
        }
        if self.rest.next_if_eq(&'"').is_none() {
            return;
        }
        self.found.code.push('"');
        while let Some(next) = self.copy() {
            if next != '"' {
                continue;
            }
            let mut closed = 0;
            while closed < hashes && self.rest.next_if_eq(&'#').is_some() {
                self.found.code.push('#');
                closed += 1;
            }
            if closed == hashes {
                return;
            }
        }
    }

    /// Copies the rest of a character literal to the code. The caller has taken a single quote,
    /// which may also begin a lifetime.
    fn character(&mut self) {
        self.found.code.push('\'');
        let mut ahead = self.rest.clone();
        let (first, second) = (ahead.next(), ahead.next());
        // An escape can have several characters, as `'\u{2f}'`. A lifetime has no second quote.
        if first == Some('\\') {
            self.copy();
            self.copy();
            while self.copy().is_some_and(|next| next != '\'') {}
        } else if second == Some('\'') {
            self.copy();
            self.copy();
        }
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests;
