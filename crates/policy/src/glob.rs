//! Patterns with wildcards: `*` matches any number of characters, `?` matches one.
//!
//! A pattern is split at its stars once. A match then searches the text for one piece after the
//! other. For example, `logs/*/a?.txt` has the pieces `logs/` and `/a?.txt`. The leftmost place of
//! a piece is as good as any other place between two stars, so the search never goes back. The time
//! is linear in the text for pieces without `?`. A piece with `?` is searched with one bit for each
//! of its characters (see `holes`): a character of the text costs one operation per 64 characters
//! of the piece.

use crate::holes::Holes;

/// One character of a pattern, or a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    /// The text must have this character here.
    Char(char),
    /// The wildcard `?`: any one character.
    One,
    /// The wildcard `*`: any number of characters, also none.
    Many,
}

/// A pattern with the wildcards `*` and `?`, in a form that is fast to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Glob {
    /// The pattern matches each text: it is `*`.
    All,
    /// The pattern has no wildcard and matches this text only.
    Literal(Box<str>),
    /// The pattern matches each text with this prefix.
    Prefix(Box<str>),
    /// The pattern matches the texts that this piece, a text with `?` and without `*`, matches from
    /// start to end.
    Exact(Piece),
    /// The pattern matches texts that have these pieces, which were separated by stars, in this
    /// order with any text between them.
    Pieces(Box<Pieces>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    first: Piece,
    middle: Vec<Piece>,
    last: Piece,
}

/// The part of a pattern between two stars, or between a star and an end of the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(Box<str>),
    /// A text with at least one `?`, which matches any character.
    Holes(Holes),
}

impl Glob {
    /// Parses a pattern in which `*` and `?` are wildcards.
    pub(crate) fn new(pattern: &str) -> Glob {
        Glob::from_symbols(&symbols(pattern))
    }

    pub(crate) fn from_symbols(symbols: &[Symbol]) -> Glob {
        let mut pieces = symbols.split(|symbol| *symbol == Symbol::Many).map(Piece::new);
        let first = pieces.next().unwrap_or_else(|| Piece::new(&[]));
        let mut middle: Vec<Piece> = pieces.collect();
        // A pattern without a star is one piece.
        let Some(last) = middle.pop() else {
            return match first {
                Piece::Literal(text) => Glob::Literal(text),
                holes @ Piece::Holes(_) => Glob::Exact(holes),
            };
        };
        // Two stars in sequence match the same texts as one.
        middle.retain(|piece| !piece.is_empty());
        match first {
            Piece::Literal(text) if middle.is_empty() && last.is_empty() => {
                if text.is_empty() {
                    Glob::All
                } else {
                    Glob::Prefix(text)
                }
            }
            Piece::Literal(_) | Piece::Holes(_) => {
                Glob::Pieces(Box::new(Pieces { first, middle, last }))
            }
        }
    }

    /// Returns true if the pattern matches the whole text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self {
            Glob::All => true,
            Glob::Literal(wanted) => **wanted == *text,
            Glob::Prefix(prefix) => text.starts_with(&**prefix),
            Glob::Exact(piece) => piece.strip_from(text) == Some(""),
            Glob::Pieces(pieces) => pieces.matches(text),
        }
    }

    /// Returns true if the pattern matches each text that begins with `prefix`. Other patterns than
    /// a beginning and a star do not count, also if they match: for example `??*`.
    pub(crate) fn covers_all_below(&self, prefix: &str) -> bool {
        match self {
            Glob::All => true,
            Glob::Prefix(beginning) => prefix.starts_with(&**beginning),
            Glob::Literal(_) | Glob::Exact(_) | Glob::Pieces(_) => false,
        }
    }

    /// Returns true if the pattern certainly matches no text that begins with `prefix`, because its
    /// own beginning is another one.
    pub(crate) fn leaves_out_all_below(&self, prefix: &str) -> bool {
        let beginning = match self {
            Glob::All => "",
            Glob::Literal(text) | Glob::Prefix(text) => text,
            Glob::Exact(piece) => piece.literal(),
            Glob::Pieces(pieces) => pieces.first.literal(),
        };
        !prefix.starts_with(beginning) && !beginning.starts_with(prefix)
    }

    /// Returns the text of a pattern without wildcards; `None` if it has wildcards.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Glob::Literal(text) => Some(text),
            Glob::All | Glob::Prefix(_) | Glob::Exact(_) | Glob::Pieces(_) => None,
        }
    }
}

impl Pieces {
    fn matches(&self, text: &str) -> bool {
        let Some(mut rest) = self.first.strip_from(text) else { return false };
        for piece in &self.middle {
            // The leftmost place leaves the longest rest for the pieces behind it.
            match piece.skip_past(rest) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        self.last.ends(rest)
    }
}

impl Piece {
    fn new(symbols: &[Symbol]) -> Piece {
        let place = |symbol: &Symbol| match symbol {
            Symbol::Char(wanted) => Some(*wanted),
            Symbol::One | Symbol::Many => None,
        };
        let places: Vec<Option<char>> = symbols.iter().map(place).collect();
        match places.iter().copied().collect::<Option<String>>() {
            Some(text) => Piece::Literal(text.into()),
            None => Piece::Holes(Holes::new(places.into())),
        }
    }

    /// Returns the text of a piece without holes; an empty text if it has some.
    fn literal(&self) -> &str {
        match self {
            Piece::Literal(text) => text,
            Piece::Holes(_) => "",
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Piece::Literal(text) if text.is_empty())
    }

    /// Returns the rest of `text` after this piece of a pattern; `None` if the text does not begin
    /// with the piece.
    fn strip_from<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Piece::Literal(wanted) => text.strip_prefix(&**wanted),
            Piece::Holes(holes) => holes.strip_from(text),
        }
    }

    /// Returns the rest of `text` after the first place at which this piece of a pattern matches;
    /// `None` if it matches nowhere.
    fn skip_past<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Piece::Literal(wanted) => {
                text.find(&**wanted).and_then(|at| text.get(at + wanted.len()..))
            }
            Piece::Holes(holes) => holes.skip_past(text),
        }
    }

    fn ends(&self, text: &str) -> bool {
        match self {
            Piece::Literal(wanted) => text.ends_with(&**wanted),
            Piece::Holes(holes) => holes.ends(text),
        }
    }
}

/// Splits a pattern into its characters and wildcards; `*` and `?` are the wildcards.
pub(crate) fn symbols(pattern: &str) -> Vec<Symbol> {
    let symbol = |written| match written {
        '*' => Symbol::Many,
        '?' => Symbol::One,
        other => Symbol::Char(other),
    };
    pattern.chars().map(symbol).collect()
}
