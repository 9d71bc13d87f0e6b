//! The output of commands that create a secret.
//!
//! For example, `ashlar key add anna` prints the access key and the secret, each on a line, and
//! `--output json` one object with both.

use admin::AccessKey;

use crate::output::say;
use crate::table::{Cell, Printing, Properties, object};

/// Prints the key and its secret, `None` for a secret that is from a file. `secret` is its label, its
/// name in JSON and its text.
pub(super) fn print(
    key: &AccessKey,
    (label, name, secret): (&'static str, &'static str, Option<&str>),
    printing: Printing,
) {
    if printing.is_json() {
        let properties: Properties = vec![
            ("access_key", Cell::text(&key.access_key)),
            ("user", Cell::text(key.parent.as_deref().unwrap_or_default())),
            ("expires", Cell::time(key.expires)),
            (name, secret.map_or(Cell::Absent, Cell::text)),
        ];
        say(format_args!("{:#}", object(&properties)));
        return;
    }
    say(format_args!("access key  {}", key.access_key));
    say(format_args!("{label:10}  {}", secret.unwrap_or("(from the file)")));
}
