//! Patterns with `*` and `?`.

/// Whether the pattern covers the whole text. `*` stands for any characters, `?` for one.
///
/// Time is at most the product of both lengths: only the last `*` is ever tried again.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    let mut retry = None;
    loop {
        let (mut next_pattern, mut next_text) = (pattern.clone(), text.clone());
        match (next_pattern.next(), next_text.next()) {
            (Some('*'), _) => {
                pattern = next_pattern;
                retry = Some((pattern.clone(), text.clone()));
                continue;
            }
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                (pattern, text) = (next_pattern, next_text);
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((after_star, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        (pattern, text) = (after_star.clone(), from.clone());
    }
}
