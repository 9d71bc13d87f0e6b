//! The search for a piece of a pattern with `?`, which matches any character. For example, `a?c`.
//!
//! The search uses the Shift-And method. The state has one bit for each character of the piece: bit
//! `n` is set if the first `n + 1` characters of the piece match the text up to the current
//! character. Each character of the text shifts the state and masks it with the positions of this
//! character in the piece. The masks are prepared once: as bits for a character with many
//! positions, and as a list for a character with few. The memory is therefore proportional to the
//! length of the piece.

/// The number of bits of a machine word. The state of the search is an array of words.
const BITS: usize = u64::BITS as usize;

/// A piece of a pattern that has at least one `?` and no `*`, prepared for the search. In `places`,
/// `None` is a `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holes {
    places: Box<[Option<char>]>,
    /// The positions of `?` in the piece: bit `n` is set if character `n` of the piece is `?`.
    any: Box<[u64]>,
    /// The positions in the piece of each other character, sorted by character.
    chars: Box<[(char, Places)]>,
}

/// The positions in a piece of a pattern at which one character matches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Places {
    /// The positions as bits, which also have the positions of `?`. It is the form for a character
    /// with many positions.
    Bits(Box<[u64]>),
    /// The positions as a list, without those of `?`. It is the form for a character with few
    /// positions.
    List(Box<[usize]>),
}

impl Holes {
    pub(crate) fn new(places: Box<[Option<char>]>) -> Holes {
        let words = places.len().div_ceil(BITS);
        let mut any = vec![0; words].into_boxed_slice();
        let mut all: Vec<(char, usize)> = Vec::new();
        for (at, place) in places.iter().enumerate() {
            match place {
                Some(wanted) => all.push((*wanted, at)),
                None => set(&mut any, at),
            }
        }
        all.sort_unstable();
        let chars = all.chunk_by(|(one, _), (other, _)| one == other).filter_map(|group| {
            let wanted = group.first()?.0;
            let of_char = group.iter().map(|(_, at)| *at);
            // A list is no larger than bits while it has at most as many entries as the bits have
            // words.
            let places = if group.len() > words {
                let mut bits = any.clone();
                of_char.for_each(|at| set(&mut bits, at));
                Places::Bits(bits)
            } else {
                Places::List(of_char.collect())
            };
            Some((wanted, places))
        });
        let chars = chars.collect();
        Holes { places, any, chars }
    }

    /// Returns the rest of `text` after this piece of a pattern; `None` if the text does not begin
    /// with the piece.
    pub(crate) fn strip_from<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut rest = text.chars();
        for place in &self.places {
            let found = rest.next()?;
            if place.is_some_and(|wanted| wanted != found) {
                return None;
            }
        }
        Some(rest.as_str())
    }

    /// Returns the rest of `text` after the first place at which this piece of a pattern matches;
    /// `None` if it matches nowhere.
    pub(crate) fn skip_past<'t>(&self, text: &'t str) -> Option<&'t str> {
        let Some(last) = self.places.len().checked_sub(1) else { return Some(text) };
        let mut state = vec![0; self.any.len()];
        let mut next = state.clone();
        let mut rest = text.chars();
        while let Some(found) = rest.next() {
            self.step(found, &state, &mut next);
            if is_set(&next, last) {
                return Some(rest.as_str());
            }
            std::mem::swap(&mut state, &mut next);
        }
        None
    }

    /// Computes the state `next` of the search after the character `found` of the text from the
    /// `state` before it. Bit `n` of a state is set if the first `n + 1` characters of the piece
    /// match the text up to this character.
    fn step(&self, found: char, state: &[u64], next: &mut [u64]) {
        let at = self.chars.binary_search_by_key(&found, |(wanted, _)| *wanted);
        let places = at.ok().and_then(|at| self.chars.get(at)).map(|(_, places)| places);
        let allowed = match places {
            Some(Places::Bits(bits)) => bits,
            Some(Places::List(_)) | None => &self.any,
        };
        // The first bit is shifted in each time, because the piece may begin at each character.
        let mut carry = 1;
        for ((next, state), allowed) in next.iter_mut().zip(state).zip(allowed) {
            *next = ((*state << 1) | carry) & *allowed;
            // The highest bit of a word becomes the lowest bit of the next word.
            carry = *state >> (BITS - 1);
        }
        if let Some(Places::List(list)) = places {
            for &at in list {
                if at.checked_sub(1).is_none_or(|before| is_set(state, before)) {
                    set(next, at);
                }
            }
        }
    }

    /// Returns true if the text ends with this piece of a pattern.
    pub(crate) fn ends(&self, text: &str) -> bool {
        let mut rest = text.chars();
        self.places.iter().rev().all(|place| {
            rest.next_back().is_some_and(|found| place.is_none_or(|wanted| wanted == found))
        })
    }
}

fn set(bits: &mut [u64], at: usize) {
    if let Some(word) = bits.get_mut(at / BITS) {
        *word |= 1 << (at % BITS);
    }
}

fn is_set(bits: &[u64], at: usize) -> bool {
    bits.get(at / BITS).is_some_and(|word| word >> (at % BITS) & 1 == 1)
}
