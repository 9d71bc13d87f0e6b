//! Which access keys, secrets and names of policies are valid.

/// Characters of an access key.
const ACCESS_KEY_CHARS: std::ops::RangeInclusive<usize> = 3..=128;

/// Characters of a secret. Shorter ones could be guessed.
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 8..=128;

/// Characters of a policy's name.
const POLICY_NAME_CHARS: std::ops::RangeInclusive<usize> = 1..=64;

/// Characters of an account's name.
const ACCOUNT_NAME_CHARS: std::ops::RangeInclusive<usize> = 1..=64;

/// Why a name or secret is not valid, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// The name by which policies know clients that sign nothing: their `aws:userid`.
const ANONYMOUS: &str = "anonymous";

/// Whether this can be a new access key: 3 to 128 letters, digits, and `. _ - @ + =`. A slash would
/// make the credential scope of a signature ambiguous.
///
/// It is not twelve digits and not `anonymous`, because policies would take it for an account or for
/// clients that sign nothing.
pub fn check_access_key(text: &str) -> Result<(), NameError> {
    check_written_access_key(text)?;
    if text.parse::<record::AccountId>().is_ok() {
        return Err(NameError("an access key is not twelve digits, like an account".to_owned()));
    }
    if text.eq_ignore_ascii_case(ANONYMOUS) {
        return Err(NameError(format!("an access key is not {ANONYMOUS:?}")));
    }
    Ok(())
}

/// Whether there can be an access key of this name, be it one that could not be made any more.
pub(crate) fn check_written_access_key(text: &str) -> Result<(), NameError> {
    check("an access key", text, ACCESS_KEY_CHARS, "._-@+=")
}

/// Whether this can be a policy's name: 1 to 64 letters, digits, and `. _ -`.
pub fn check_policy_name(text: &str) -> Result<(), NameError> {
    check("a policy's name", text, POLICY_NAME_CHARS, "._-")
}

/// Whether this can be an account's name: 1 to 64 letters, digits, and `. _ -`, and not twelve
/// digits, which would be a number.
pub fn check_account_name(text: &str) -> Result<(), NameError> {
    check("an account's name", text, ACCOUNT_NAME_CHARS, "._-")?;
    if text.parse::<record::AccountId>().is_ok() {
        return Err(NameError("an account's name is not its number".to_owned()));
    }
    Ok(())
}

/// Whether this can be a secret: 8 to 128 printable ASCII characters without spaces. The sentence
/// of the error does not repeat it.
pub fn check_secret(text: &str) -> Result<(), NameError> {
    let (shortest, longest) = (SECRET_CHARS.start(), SECRET_CHARS.end());
    if !SECRET_CHARS.contains(&text.chars().count()) {
        return Err(NameError(format!("a secret has {shortest} to {longest} characters")));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let sentence = "a secret consists of printable ASCII characters without spaces";
        return Err(NameError(sentence.to_owned()));
    }
    Ok(())
}

fn check(
    what: &str,
    text: &str,
    chars: std::ops::RangeInclusive<usize>,
    marks: &str,
) -> Result<(), NameError> {
    let (shortest, longest) = (chars.start(), chars.end());
    if !chars.contains(&text.chars().count()) {
        let sentence = format!("{what} has {shortest} to {longest} characters, not {text:?}");
        return Err(NameError(sentence));
    }
    match text.chars().find(|&char| !char.is_ascii_alphanumeric() && !marks.contains(char)) {
        None => Ok(()),
        Some(char) => Err(NameError(format!(
            "{what} consists of letters, digits and {marks}, without {char:?} as in {text:?}"
        ))),
    }
}

#[cfg(test)]
mod tests;
