//! The output of commands that create a secret.
//!
//! For example, `ashlar key add anna` prints the access key and the secret, each on a line, and
//! `--output json` one object with both.

use admin::AccessKey;
use record::Timestamp;

use crate::output::say;
use crate::table::{Cell, Printing, Properties, object};

/// A new key or token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issued<'a> {
    pub(super) access_key: &'a str,
    /// The user of a further key or a token.
    pub(super) user: Option<&'a str>,
    pub(super) expires: Option<Timestamp>,
}

impl<'a> From<&'a AccessKey> for Issued<'a> {
    fn from(key: &'a AccessKey) -> Issued<'a> {
        let user = key.parent.as_deref();
        Issued { access_key: &key.access_key, user, expires: key.expires }
    }
}

/// Prints the key and its secret, `None` for a secret that is from a file. `secret` is its label,
/// its name in JSON and its text.
pub(super) fn print(
    key: Issued<'_>,
    (label, name, secret): (&'static str, &'static str, Option<&str>),
    printing: Printing,
) {
    if printing.is_json() {
        let properties: Properties = vec![
            ("access_key", Cell::text(key.access_key)),
            ("user", Cell::text(key.user.unwrap_or_default())),
            ("expires", Cell::time(key.expires)),
            (name, secret.map_or(Cell::Absent, Cell::text)),
        ];
        say(format_args!("{:#}", object(&properties)));
        return;
    }
    say(format_args!("access key  {}", key.access_key));
    say(format_args!("{label:10}  {}", secret.unwrap_or("(from the file)")));
}
