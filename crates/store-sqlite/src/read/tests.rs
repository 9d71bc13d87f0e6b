//! The texts of reads are few, so that SQLite does not prepare them each time.

use std::collections::BTreeSet;

use super::*;
use crate::script::{CACHED_TEXT_BYTES, RANGE_LENGTH_MAX};

fn range(number: usize, follow: Option<&Follow>) -> Read {
    let key = |number: usize| Key::new(Space(b'd'), 1, &number.to_be_bytes());
    let limit = u32::try_from(number % 1_000).unwrap() + 1;
    Read::Range { start: key(number), end: key(number + 1), limit, follow: follow.cloned() }
}

fn texts(ranges: usize, follow: Option<&Follow>) -> Vec<String> {
    let reads: Vec<Read> = (0..ranges).map(|number| range(number, follow)).collect();
    let script = Questions::of(&reads).script().unwrap();
    script.texts().map(str::to_owned).collect()
}

#[test]
fn reads_of_any_number_of_ranges_have_few_cached_texts() {
    let follow = Follow { prefix: vec![b'i'].into(), offset: 1, length: 8, bytes_max: None };
    for follow in [None, Some(&follow)] {
        let mut all = BTreeSet::new();
        for ranges in (1..=150).chain([1_000, LIMITS.reads]) {
            let texts = texts(ranges, follow);
            assert!(texts.len() <= ranges.div_ceil(RANGE_LENGTH_MAX) + 1, "{ranges}");
            all.extend(texts);
        }
        assert!(all.len() <= 16, "{} texts", all.len());
        for text in &all {
            assert!(text.len() <= CACHED_TEXT_BYTES, "{} bytes", text.len());
            // If a parameter alone is the limit, SQLite plans the statement at each execution.
            assert!(!text.contains("LIMIT ?"));
        }
    }
}
