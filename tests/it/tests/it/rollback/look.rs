//! Reads of a key that wait until the gateway serves.

use super::*;

/// The time limit for a gateway that is starting.
const SERVED: Duration = Duration::from_secs(30);

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// The state of a key.
#[derive(Debug)]
pub(super) enum Found {
    Absent,
    /// The bytes and the entity tag.
    Is(Vec<u8>, String),
    /// An error that does not ask for a retry.
    Unreadable(String),
}

/// Returns the result of one GET; `None` if it was not served.
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

/// Reads until the gateway serves. A body that breaks off each time is unreadable.
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
