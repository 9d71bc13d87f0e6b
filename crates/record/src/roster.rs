//! The files that a pack was made for.

use crate::Ino;

/// The files that a pack was made for, or were going to be: numbers that follow each other.
///
/// A file on the roster of a pack owns bytes in it as long as its inode names the pack; no record of
/// its share is needed. Whether one that was never published comes yet, the roster does not say.
///
/// It is kept as a tally, so that every plan that publishes one of the files can raise it to the same
/// number, in whatever order they come: the first file's number, and in the low twelve bits how many
/// there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    first: u64,
    count: u64,
}

impl Roster {
    /// Bits of the count.
    const COUNT_BITS: u32 = 12;

    /// The most files on a roster.
    pub const FILES_MAX: usize = (1 << Roster::COUNT_BITS) - 1;

    /// Numbers from here on are on no roster: a tally would not be exact on every engine.
    const END: u64 = 1 << (53 - Roster::COUNT_BITS);

    /// The roster of `count` files from `first` on. `None` if there is none of so many, or of numbers
    /// so large; then each owner has a share record instead.
    pub fn new(first: Ino, count: usize) -> Option<Roster> {
        let fits = (1..=Roster::FILES_MAX).contains(&count) && first.0 != 0;
        let roster = Roster { first: first.0, count: count as u64 };
        (fits && first.0.checked_add(roster.count)? <= Roster::END).then_some(roster)
    }

    /// What a tally says; nobody for a tally that is missing, or not a roster's.
    pub fn from_tally(tally: i64) -> Roster {
        let tally = u64::try_from(tally).unwrap_or(0);
        let count = usize::try_from(tally & Roster::FILES_MAX as u64).unwrap_or(0);
        Roster::new(Ino(tally >> Roster::COUNT_BITS), count).unwrap_or_default()
    }

    /// The number that a tally keeps, never 0 for a roster with files on it.
    pub fn to_tally(self) -> i64 {
        i64::try_from(self.first << Roster::COUNT_BITS | self.count).unwrap_or(0)
    }

    /// Whether nobody is on it.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Whether a file is on it.
    pub fn contains(self, file: Ino) -> bool {
        (self.first..self.first + self.count).contains(&file.0)
    }

    /// The file at a place; none behind the last.
    pub fn get(self, place: usize) -> Option<Ino> {
        let place = u64::try_from(place).ok().filter(|place| *place < self.count)?;
        Some(Ino(self.first + place))
    }

    /// Its files.
    pub fn files(self) -> impl Iterator<Item = Ino> {
        (self.first..self.first + self.count).map(Ino)
    }
}

#[cfg(test)]
mod tests;
