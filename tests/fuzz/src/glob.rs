//! A naive matcher of wildcards, against which the real ones are compared.

/// Returns true if a pattern matches a text. `*` matches any characters, `?` matches one.
pub(crate) fn covers(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    // `fits[j]` is true if the pattern up to here matches the first `j` characters.
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
