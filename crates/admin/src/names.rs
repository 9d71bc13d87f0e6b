//! The checks of access keys, secrets, and names of policies and accounts.
//!
//! For example, `anna@example.com` is a valid access key, and `a/b` is not.

/// The permitted length of an access key in characters.
const ACCESS_KEY_CHARS: std::ops::RangeInclusive<usize> = 3..=128;

/// The permitted length of a secret in characters. A shorter one could be guessed.
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 8..=128;

/// The permitted length of the name of a policy or a group in characters.
const POLICY_NAME_CHARS: std::ops::RangeInclusive<usize> = 1..=64;

/// The permitted length of an account name in characters.
const ACCOUNT_NAME_CHARS: std::ops::RangeInclusive<usize> = 1..=64;

/// The reason why a name or secret is not valid, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

impl NameError {
    pub(crate) fn new(sentence: String) -> NameError {
        NameError(sentence)
    }
}

/// The `aws:userid` of anonymous clients in policies.
const ANONYMOUS: &str = "anonymous";

/// Checks a new access key: 3 to 128 letters, digits, and `. _ - @ + =`. A slash is refused because
/// it would make the credential scope of a signature ambiguous.
///
/// Twelve digits and `anonymous` are refused, because a policy would read them as an account and as
/// anonymous clients.
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

/// Checks the name of an existing access key. Earlier releases accepted names that are refused for
/// new access keys.
pub(crate) fn check_written_access_key(text: &str) -> Result<(), NameError> {
    check("an access key", text, ACCESS_KEY_CHARS, "._-@+=")
}

/// Checks a policy name: 1 to 64 letters, digits, and `. _ -`.
pub fn check_policy_name(text: &str) -> Result<(), NameError> {
    check("a policy's name", text, POLICY_NAME_CHARS, "._-")
}

/// Checks a group name: 1 to 64 letters, digits, and `. _ -`.
pub fn check_group_name(text: &str) -> Result<(), NameError> {
    check("a group's name", text, POLICY_NAME_CHARS, "._-")
}

/// Checks an account name: 1 to 64 letters, digits, and `. _ -`. Twelve digits are refused, because
/// they would be the number of an account.
pub fn check_account_name(text: &str) -> Result<(), NameError> {
    check("an account's name", text, ACCOUNT_NAME_CHARS, "._-")?;
    if text.parse::<record::AccountId>().is_ok() {
        return Err(NameError("an account's name is not its number".to_owned()));
    }
    Ok(())
}

/// Checks a secret: 8 to 128 printable ASCII characters without spaces. The error does not repeat
/// the secret.
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
    // A browser takes such a part of a path for the folder or the one above.
    if text == "." || text == ".." {
        return Err(NameError(format!("{what} is not {text:?}")));
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
