//! Objects that are put concurrently, so that they share packs. Most are deleted after the moment.
//! The rewriting of the packs must not change the others.

use super::look::{Found, look};
use super::violations::Violation;
use super::*;

/// Number of concurrent clients.
const TOGETHER: usize = 16;

/// Number of objects of each client. The first one stays, the others are deleted.
const EACH: usize = 4;

/// Length of an object in bytes: too long for a record, and short enough to share a block.
const SIZE: usize = 64 << 10;

fn path(round: u64, client: usize, at: usize) -> String {
    format!("/box/packs-{round}/{client}-{at}")
}

fn content(round: u64, client: usize, at: usize) -> Vec<u8> {
    bytes(1_000_000 * (round + 1) + (client * EACH + at) as u64, SIZE)
}

/// Puts the objects.
#[track_caller]
pub(super) fn put(clients: &[Client], round: u64) {
    std::thread::scope(|scope| {
        for (name, client) in (0..TOGETHER).zip(clients.iter().cycle()) {
            scope.spawn(move || {
                let mut line = Line::new(client);
                for at in 0..EACH {
                    let put = Request::new("PUT", &path(round, name, at));
                    let put = put.body(content(round, name, at));
                    line.send(&put).expect("an answer").expect(200);
                }
            });
        }
    });
}

/// Deletes all but the first object of each client.
pub(super) fn delete_most(clients: &[Client], round: u64) {
    std::thread::scope(|scope| {
        for (name, client) in (0..TOGETHER).zip(clients.iter().cycle()) {
            scope.spawn(move || {
                let mut line = Line::new(client);
                for at in 1..EACH {
                    let delete = Request::new("DELETE", &path(round, name, at));
                    line.send(&delete).expect("an answer").expect(204);
                }
            });
        }
    });
}

/// Reads all objects: those that stay, and those whose deletion was taken back.
pub(super) fn are_whole(clients: &[Client], round: u64, violations: &mut Violations) {
    for (name, at) in (0..TOGETHER).flat_map(|name| (0..EACH).map(move |at| (name, at))) {
        let path = path(round, name, at);
        let (kind, what) = match look(&clients[name % clients.len()], &path) {
            Found::Is(body, tag) if body == content(round, name, at) && tag == etag(&body) => {
                continue;
            }
            Found::Is(body, tag) => {
                (Violation::Foreign, format!("{} bytes, tag {tag}", body.len()))
            }
            Found::Absent => (Violation::Lost, "gone".to_owned()),
            Found::Unreadable(why) => (Violation::Unreadable, why),
        };
        let kind = if at == 0 { Violation::Neglected } else { kind };
        violations.add(kind, format!("{path}: {what}"));
    }
}
