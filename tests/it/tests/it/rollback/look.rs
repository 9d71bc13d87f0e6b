//! What a key looks like to a client that is patient.

use super::*;

/// For how long an object may not be served because something starts.
const SERVED: Duration = Duration::from_secs(30);

/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(100);

/// What is under a key.
#[derive(Debug)]
pub(super) enum Found {
    Absent,
    /// Bytes and their tag.
    Is(Vec<u8>, String),
    /// An error that is not about being busy.
    Unreadable(String),
}

/// What one GET says; nothing if it was not served.
pub(super) fn found(line: &mut Line, path: &str) -> Option<Found> {
    let answer = line.send(&Request::new("GET", path)).ok()?;
    let tag = answer.header("etag").to_owned();
    match answer.status {
        200 => Some(Found::Is(answer.body, tag)),
        404 => Some(Found::Absent),
        503 => None,
        status => Some(Found::Unreadable(format!("{status} {}", answer.code()))),
    }
}

/// Looks until it is served. A body that breaks off again and again is none.
pub(super) fn look(client: &Client, path: &str) -> Found {
    let mut line = Line::new(client);
    let limit = Instant::now() + SERVED;
    loop {
        if let Some(found) = found(&mut line, path) {
            return found;
        }
        if Instant::now() > limit {
            return Found::Unreadable("no answer, or one that breaks off".to_owned());
        }
        std::thread::sleep(PAUSE);
    }
}
