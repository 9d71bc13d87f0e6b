//! Members: the form of a record of an ordered space in the sorted set of its partition.
//!
//! A member is the record's suffix, encoded so that its end can be found, and then the value. Bytes
//! other than zero are kept. A run of zeros is encoded as a zero and a byte:
//!
//! - at the end of the suffix, where the run may be empty, the byte is the length of the run;
//! - before another byte it is 255 minus the length.
//!
//! So members sort as their suffixes do. Of two runs before other bytes the longer one sorts first;
//! of two at the end the longer one sorts last; and a suffix sorts before all suffixes of which it
//! is a prefix. No encoded suffix is a prefix of another. A run costs two bytes for any length, and
//! most numbers in keys have only one run.
//!
//! For example, the suffix `a` is encoded as `a 00 00`, and the bytes `00 00 01` as `00 fd 01 00
//! 00`.
//!
//! Scripts mostly take encoded suffixes as they are. `prelude.lua` has a pattern that finds the end
//! of one, and `read.lua` a function that encodes one.

/// Limit of the zero bytes that are encoded as one run. Longer sequences are several runs.
const RUN_MAX: usize = 127;

/// Encodes the suffix of a key in the form with which members of a sorted set begin.
pub(crate) fn written(suffix: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(suffix.len() + 2);
    let mut rest = suffix;
    loop {
        let plain = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        let (plain, zeros) = rest.split_at(plain);
        written.extend_from_slice(plain);
        let run = zeros.iter().take(RUN_MAX).take_while(|byte| **byte == 0).count();
        rest = zeros.get(run..).unwrap_or_default();
        let run = u8::try_from(run).expect("a run is short");
        written.extend([0, if rest.is_empty() { run } else { u8::MAX - run }]);
        if rest.is_empty() {
            return written;
        }
    }
}

/// Splits a member of a sorted set into the suffix of the record's key and the record's value.
/// Returns `None` if it is malformed.
pub(crate) fn read(member: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut suffix = Vec::with_capacity(member.len());
    let mut rest = member;
    loop {
        let plain = rest.iter().position(|byte| *byte == 0)?;
        suffix.extend_from_slice(rest.get(..plain)?);
        let (run, more) = rest.get(plain + 1..)?.split_first()?;
        rest = more;
        let last = usize::from(*run) <= RUN_MAX;
        let zeros = if last { *run } else { u8::MAX - *run };
        suffix.resize(suffix.len() + usize::from(zeros), 0);
        if last {
            return Some((suffix, rest));
        }
    }
}

#[cfg(test)]
mod tests;
