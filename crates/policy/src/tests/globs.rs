use std::time::{Duration, Instant};

use crate::glob::Glob;

/// A pattern by its definition.
fn naive(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => (0..=text.len()).any(|skip| naive(rest, &text[skip..])),
        (Some((wanted, pattern)), Some((found, text))) => {
            (*wanted == '?' || wanted == found) && naive(pattern, text)
        }
        _ => false,
    }
}

/// All texts of up to this many of the letters.
fn all_texts(letters: &[char], longest: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..longest {
        last = last
            .iter()
            .flat_map(|text| letters.iter().map(move |it| format!("{text}{it}")))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn a_pattern_matches_as_its_definition_says() {
    let texts = all_texts(&['a', 'é'], 5);
    for pattern in all_texts(&['a', 'é', '*', '?'], 5) {
        let glob = Glob::new(&pattern);
        let symbols: Vec<char> = pattern.chars().collect();
        for text in &texts {
            let expected = naive(&symbols, &text.chars().collect::<Vec<_>>());
            assert_eq!(glob.matches(text), expected, "{pattern} {text}");
        }
    }
}

#[test]
fn a_pattern_is_parsed_into_its_simplest_form() {
    assert_eq!(Glob::new("*"), Glob::All);
    assert_eq!(Glob::new("**"), Glob::All);
    assert_eq!(Glob::new("a*"), Glob::Prefix("a".into()));
    assert_eq!(Glob::new("ab"), Glob::Literal("ab".into()));
}

#[test]
fn a_hostile_pattern_takes_linear_time() {
    let text = "a".repeat(1024);
    let patterns = [
        "*a".repeat(1000) + "b",
        "a*".repeat(1000) + "b",
        "*?".repeat(1000) + "b",
        format!("*{}b*", "a?".repeat(256)),
        format!("*{}b", "a".repeat(512)),
        format!("{}b*", "*a?a".repeat(200)),
    ];
    let began = Instant::now();
    for pattern in patterns {
        assert!(!Glob::new(&pattern).matches(&text), "{pattern}");
    }
    // A matcher that tries every way to match needs more than a lifetime.
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}

/// Returns true if a pattern matches a text, by dynamic programming.
fn covers(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut ends: Vec<bool> = (0..=text.len()).map(|at| at == 0).collect();
    for symbol in pattern.chars() {
        let before = ends.clone();
        for at in 0..=text.len() {
            let fits = |at: usize| symbol == '?' || text[at - 1] == symbol;
            ends[at] = if symbol == '*' {
                before[..=at].contains(&true)
            } else {
                at > 0 && before[at - 1] && fits(at)
            };
        }
    }
    ends[text.len()]
}

#[test]
fn a_long_piece_with_question_marks_matches_as_its_definition_says() {
    let mut covered = 0;
    for length in [1, 2, 31, 32, 63, 64, 65, 127, 128, 129, 200] {
        for (offset, letters) in [(0, "ab"), (1, "ab"), (3, "aé")] {
            let letter = |at: usize| letters.chars().nth(at / 3 % 2).expect("two letters");
            let text: String = (0..length + 9).map(letter).collect();
            for holes in [2, 5, 64] {
                for broken in [None, Some(length / 2)] {
                    let place = |at: usize| match broken {
                        Some(broken) if broken == at => 'z',
                        _ if at.is_multiple_of(holes) => '?',
                        _ => letter(at + offset),
                    };
                    let piece: String = (0..length).map(place).collect();
                    let pattern = format!("*{piece}*");
                    let expected = covers(&pattern, &text);
                    assert_eq!(Glob::new(&pattern).matches(&text), expected, "{pattern} {text}");
                    covered += usize::from(expected);
                }
            }
        }
    }
    assert!(covered > 90, "{covered}");
}

#[test]
fn a_long_piece_with_question_marks_is_fast_for_many_texts() {
    let glob = Glob::new(&format!("*{}z*", "?x".repeat(2_000)));
    let text = "x".repeat(8_000);
    let began = Instant::now();
    assert!((0..20).all(|_| !glob.matches(&text)));
    // One step for each pair of places would be 400 million.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn a_pattern_covers_or_leaves_out_all_texts_below_a_prefix() {
    let texts = all_texts(&['a', 'b', '/'], 4);
    let (mut covered, mut left_out) = (0, 0);
    for pattern in all_texts(&['a', 'b', '/', '*', '?'], 4) {
        let glob = Glob::new(&pattern);
        for prefix in ["a/", "ab/"] {
            let mut below = texts.iter().filter(|text| text.starts_with(prefix));
            if glob.covers_all_below(prefix) {
                covered += 1;
                assert!(below.all(|text| glob.matches(text)), "{pattern} {prefix}");
            } else if glob.leaves_out_all_below(prefix) {
                left_out += 1;
                assert!(!below.any(|text| glob.matches(text)), "{pattern} {prefix}");
            }
        }
    }
    assert!(covered > 10 && left_out > 100, "{covered} {left_out}");
    for pattern in ["*", "a*", "a/*", "**"] {
        assert!(Glob::new(pattern).covers_all_below("a/"), "{pattern}");
    }
    for pattern in ["a/?", "a/", "a/b*", "a/*b", "a/?*", "?*"] {
        assert!(!Glob::new(pattern).covers_all_below("a/"), "{pattern}");
    }
}
