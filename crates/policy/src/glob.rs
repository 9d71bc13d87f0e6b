//! Patterns with `*` and `?`, taken apart once so that matching only searches.
//!
//! `*` stands for any characters, `?` for one. Between two stars the leftmost fit is as good as any
//! other, so nothing is ever tried again: time is linear for pieces without `?`. A piece with `?` is
//! searched for with one bit for each of its characters (see `holes`), so a step over a character of
//! the text costs one operation for 64 characters of the piece.

use crate::holes::Holes;

/// One place of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    /// This character.
    Char(char),
    /// Any one character.
    One,
    /// Any characters.
    Many,
}

/// A pattern, ready to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Glob {
    /// Everything.
    All,
    /// One text.
    Literal(Box<str>),
    /// All texts that begin so.
    Prefix(Box<str>),
    /// All texts of this length that fit.
    Exact(Piece),
    /// Pieces in this order, with anything between them.
    Pieces(Box<Pieces>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    first: Piece,
    middle: Vec<Piece>,
    last: Piece,
}

/// What stands between two stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(Box<str>),
    /// Characters, of which some may be any one.
    Holes(Holes),
}

impl Glob {
    /// Reads `*` and `?` as wildcards.
    pub(crate) fn new(pattern: &str) -> Glob {
        Glob::from_symbols(&symbols(pattern))
    }

    pub(crate) fn from_symbols(symbols: &[Symbol]) -> Glob {
        let mut pieces = symbols.split(|symbol| *symbol == Symbol::Many).map(Piece::new);
        let first = pieces.next().unwrap_or_else(|| Piece::new(&[]));
        let mut middle: Vec<Piece> = pieces.collect();
        let Some(last) = middle.pop() else {
            return match first {
                Piece::Literal(text) => Glob::Literal(text),
                holes @ Piece::Holes(_) => Glob::Exact(holes),
            };
        };
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

    /// Whether the pattern covers the whole text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self {
            Glob::All => true,
            Glob::Literal(wanted) => **wanted == *text,
            Glob::Prefix(prefix) => text.starts_with(&**prefix),
            Glob::Exact(piece) => piece.strip_from(text) == Some(""),
            Glob::Pieces(pieces) => pieces.matches(text),
        }
    }

    /// The text, where the pattern stands for one text alone.
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

    fn is_empty(&self) -> bool {
        matches!(self, Piece::Literal(text) if text.is_empty())
    }

    /// The text after the piece, where the text begins with it.
    fn strip_from<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Piece::Literal(wanted) => text.strip_prefix(&**wanted),
            Piece::Holes(holes) => holes.strip_from(text),
        }
    }

    /// The text after the first place where the piece fits.
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

/// The places of a pattern in which `*` and `?` are wildcards.
pub(crate) fn symbols(pattern: &str) -> Vec<Symbol> {
    let symbol = |written| match written {
        '*' => Symbol::Many,
        '?' => Symbol::One,
        other => Symbol::Char(other),
    };
    pattern.chars().map(symbol).collect()
}
