//! The remedies for stores that cannot be opened.
//!
//! Errors of our own engines contain a remedy. Errors of drivers are classified by words in their
//! texts, because the drivers have no types for most causes. For example, `password authentication
//! failed` gets the remedy for wrong credentials.

use std::error::Error;

use block::{BlockError, BlockErrorKind};
use problem::Cause;
use store::{StoreError, StoreErrorKind};

use crate::config::BlocksPlace;

/// The remedy for a server that does not answer.
const ADDRESS: &str =
    "check that the database server runs and answers at this address, or correct --meta";
/// The remedy for Sentinels of which too few name the master.
const SENTINELS: &str = "check that the Sentinels run and answer there, or correct the Sentinels or the master in --meta";
/// The remedy for a server that speaks another protocol.
const ANOTHER: &str = "another program answers at this address: correct host and port in --meta";
/// The remedy for wrong credentials.
const CREDENTIALS: &str =
    "correct the user in --meta, and the password in ASHLAR_META_PASSWORD (or its file)";
/// The remedy for a role of PostgreSQL that may not use the schema or the tables.
const RIGHTS: &str = "give --meta the user that owns the tables, or grant this user their use and \
                      the creation of tables in the schema";
/// The remedy for a database that does not exist.
const DATABASE: &str = "create this database first, or correct its name in --meta";
/// The remedy for a failed TLS handshake.
const TLS: &str = "check that the server uses TLS as --meta requires, and that --meta names the \
                   certificate of its authority";

/// Words in the errors of engines about their URL.
const READING_URL: &str = "reading the URL";

/// Words of drivers and servers in lower case, each with the remedy for its cause. The first match
/// decides.
const SERVER_CAUSES: [(&str, &str); 23] = [
    ("noauth", CREDENTIALS),
    ("wrongpass", CREDENTIALS),
    ("noperm", CREDENTIALS),
    ("password", CREDENTIALS),
    ("authentication", CREDENTIALS),
    ("access denied", CREDENTIALS),
    ("permission denied for", RIGHTS),
    ("role \"", CREDENTIALS),
    ("unknown database", DATABASE),
    ("database \"", DATABASE),
    ("db index", DATABASE),
    ("certificate", TLS),
    ("tls", TLS),
    ("ssl", TLS),
    ("handshake", TLS),
    ("refused (", ADDRESS),
    ("lookup", ADDRESS),
    ("timed out", ADDRESS),
    ("no answer", ADDRESS),
    ("unreachable", ADDRESS),
    ("no route", ADDRESS),
    ("reset by peer", ADDRESS),
    ("unexpected", ANOTHER),
];

/// Returns the remedy for a database server that cannot be used.
pub(super) fn of_server(error: &StoreError) -> Option<&'static str> {
    let text = error.to_string().to_lowercase();
    // Without a source, the error is from our engine and contains its remedy, except a timeout and
    // the answers of Sentinels.
    if error.source().is_none() {
        if text.contains("sentinels name the master") {
            return Some(SENTINELS);
        }
        return text.contains("no answer").then_some(ADDRESS);
    }
    let cause = error.source().map(|source| source.to_string().to_lowercase()).unwrap_or_default();
    let matches =
        |words: &str| cause.contains(words) || (words == "no answer" && text.contains(words));
    SERVER_CAUSES.iter().find(|(words, _)| matches(words)).map(|(_, remedy)| *remedy)
}

/// Returns the cause of the failure to use a database server: its absence, or settings that it
/// refuses.
pub(super) fn cause_of_server(error: &StoreError) -> Cause {
    // Engines read their parameters from the URL before they connect.
    if error.kind() == StoreErrorKind::Malformed || error.to_string().contains(READING_URL) {
        return Cause::Settings;
    }
    match of_server(error) {
        Some(CREDENTIALS | RIGHTS | DATABASE | TLS | ANOTHER) => Cause::Settings,
        Some(_) => Cause::Unavailable,
        None if error.kind() == StoreErrorKind::Unavailable => Cause::Unavailable,
        None => Cause::Other,
    }
}

/// Returns the remedy for a file of SQLite that cannot be used.
pub(super) fn of_file(error: &StoreError) -> Option<&'static str> {
    let text = error.to_string();
    if text.contains("another process serves it") {
        return Some("stop that process; several gateways need a database server");
    }
    // These texts contain the remedy.
    let has_remedy =
        ["its folder must exist", "is a folder"].iter().any(|words| text.contains(words));
    (!has_remedy).then_some("give a file of Ashlar, or one that does not exist yet, as --meta")
}

/// Returns the remedy for a block store that cannot be used. The texts of refusals contain theirs.
pub(super) fn of_blocks(place: &BlocksPlace, error: &BlockError) -> Option<&'static str> {
    let kind = error.kind();
    if kind == BlockErrorKind::Full {
        return Some("free some space there");
    }
    if kind != BlockErrorKind::Unavailable || !matches!(place, BlocksPlace::Bucket(_)) {
        return None;
    }
    // The TLS library's text for a response without TLS.
    if error.to_string().contains("InvalidContentType") {
        return Some("if the block store uses plain HTTP, give endpoint=http:// in --blocks");
    }
    Some("check that the block store runs at the endpoint, or correct --blocks")
}

#[cfg(test)]
mod tests;
