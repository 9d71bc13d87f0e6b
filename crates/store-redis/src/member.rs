//! Members: how a record of an ordered space stands in the sorted set of its partition.
//!
//! A member is the record's suffix, written so that it says where it ends, and then its value. The
//! bytes of a suffix stand as they are, but for zeros: a run of them is a zero and a byte that says
//! how many there are. At the end, where there may be none, that byte is their number; before
//! another byte it is 255 less their number. So members are in the order of their suffixes: of two
//! runs the longer comes first if something follows both, and last if nothing does, and what ends
//! comes before what goes on. No written suffix begins another, and a run costs two bytes however
//! long it is; most numbers in keys have one.
//!
//! Scripts take written suffixes as they come. Where they must find the end of one, or write one
//! themselves, `prelude.lua` and `read.lua` say the same in patterns.

/// Zeros that one run tells, at most; more take several.
const RUN_MAX: usize = 127;

/// Writes a suffix.
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

/// Reads the suffix that a member begins with, and says what follows: the value. `None` if it is no
/// member.
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
