//! Wildcards as one would write them down: a naive matcher for oracles.

/// Whether a pattern covers a text. `*` stands for any characters, `?` for one.
pub(crate) fn covers(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    // `fits[j]` tells whether what was seen of the pattern covers the first `j` characters.
    let mut fits = vec![false; text.len() + 1];
    fits[0] = true;
    for symbol in pattern {
        if symbol == '*' {
            for at in 1..fits.len() {
                fits[at] |= fits[at - 1];
            }
        } else {
            for at in (1..fits.len()).rev() {
                fits[at] = fits[at - 1] && (symbol == '?' || symbol == text[at - 1]);
            }
            fits[0] = false;
        }
    }
    fits[text.len()]
}
