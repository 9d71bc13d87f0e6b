//! One remedy for each cause of a store that cannot be opened.
//!
//! Errors of our own engines name a setting and say what to do about it, so they get no further
//! remedy. Errors of drivers are told apart by the words of the servers, which no type tells apart.

use std::error::Error;

use block::{BlockError, BlockErrorKind};
use store::StoreError;

use crate::config::BlocksPlace;

const ADDRESS: &str =
    "see that the database server runs and answers at this address, or correct --meta";
const ANOTHER: &str = "another program answers at this address: correct host and port in --meta";
const CREDENTIALS: &str =
    "correct the user in --meta, and the password in ASHLAR_META_PASSWORD (or its file)";
const DATABASE: &str = "make this database first, or correct its name in --meta";
const TLS: &str = "see that the server speaks TLS as --meta demands, and that the certificate of its \
                   authority is named there";

/// Words of drivers and servers in lower case, and the remedy for their cause. The first that fits
/// counts.
const SERVER_CAUSES: [(&str, &str); 22] = [
    ("noauth", CREDENTIALS),
    ("wrongpass", CREDENTIALS),
    ("noperm", CREDENTIALS),
    ("password", CREDENTIALS),
    ("authentication", CREDENTIALS),
    ("access denied", CREDENTIALS),
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
    // Without a driver's error the text is ours. It has a remedy, unless it is a deadline of ours.
    if error.source().is_none() {
        return text.contains("no answer").then_some(ADDRESS);
    }
    let cause = error.source().map(|source| source.to_string().to_lowercase()).unwrap_or_default();
    let fits =
        |words: &str| cause.contains(words) || (words == "no answer" && text.contains(words));
    SERVER_CAUSES.iter().find(|(words, _)| fits(words)).map(|(_, remedy)| *remedy)
}

/// Returns the remedy for a file of SQLite that cannot be used.
pub(super) fn of_file(error: &StoreError) -> Option<&'static str> {
    let text = error.to_string();
    if text.contains("another process serves it") {
        return Some("stop that process; several gateways need a database server");
    }
    // These texts say what to do.
    let says = ["its folder must exist", "is a folder"].iter().any(|words| text.contains(words));
    (!says).then_some("name a file of Ashlar's own, or one that does not exist yet, with --meta")
}

/// Returns the remedy for a place of blocks that cannot be used. Texts of refusals say what to do.
pub(super) fn of_blocks(place: &BlocksPlace, error: &BlockError) -> Option<&'static str> {
    let kind = error.kind();
    if kind == BlockErrorKind::Full {
        return Some("make room there");
    }
    if kind != BlockErrorKind::Unavailable || !matches!(place, BlocksPlace::Bucket(_)) {
        return None;
    }
    // The TLS library's text for an answer that is no TLS.
    if error.to_string().contains("InvalidContentType") {
        return Some("if the block store speaks plain HTTP, write endpoint=http:// in --blocks");
    }
    Some("see that the block store runs at the endpoint, or correct --blocks")
}

#[cfg(test)]
mod tests;
