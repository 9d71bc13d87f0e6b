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
fn a_pattern_covers_what_its_definition_says() {
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
fn a_pattern_is_taken_apart_once() {
    assert_eq!(Glob::new("*"), Glob::All);
    assert_eq!(Glob::new("**"), Glob::All);
    assert_eq!(Glob::new("a*"), Glob::Prefix("a".into()));
    assert_eq!(Glob::new("ab"), Glob::Literal("ab".into()));
}

#[test]
fn a_hostile_pattern_does_not_take_long() {
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
