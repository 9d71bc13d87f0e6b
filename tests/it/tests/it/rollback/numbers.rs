//! Numbers of files that a gateway was given after the moment: the store has forgotten that, and gives
//! them again.

use super::look::{Found, look};
use super::*;
use crate::fleet::on_each_server;

on_each_server!(what_was_acknowledged_under_a_forgotten_lease_stays_what_it_is);

/// Objects that are put before the store is put back.
const BEFORE: u64 = 10;

/// Objects that each gateway puts that comes after it, more than there were under the lease.
const OBJECTS: u64 = 80;

/// Clients that put at the same time after it.
const CLIENTS: u64 = 8;

/// A body in a record: what a number that is given twice takes from its object.
fn content(name: &str, at: u64) -> Vec<u8> {
    format!("{name} {at}").into_bytes()
}

/// Puts objects until one is not acknowledged or there are so many; how many were.
fn put(client: &Client, name: &str, most: u64) -> u64 {
    let mut line = Line::new(client);
    for at in 0..most {
        let put = Request::new("PUT", &format!("/box/{name}/{at}")).body(content(name, at));
        if !line.send(&put).is_ok_and(|answer| answer.status == 200) {
            return at;
        }
    }
    most
}

/// Puts objects through a gateway that has lived through it, by clients beside each other, until it
/// ends. Whoever comes while another one is served has a lane of its own, which nobody has forgotten.
/// Answers what was acknowledged.
fn put_together(gateway: &Gateway) -> Vec<(String, u64)> {
    let limit = Instant::now() + NOTICED;
    let goes_on = || gateway.client.connect().is_ok() && Instant::now() < limit;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|name| {
                scope.spawn(move || {
                    let (mut line, mut done) = (Line::new(&gateway.client), Vec::new());
                    for at in 0..OBJECTS {
                        let name = format!("after-{name}");
                        let put = Request::new("PUT", &format!("/box/{name}/{at}"));
                        let put = put.body(content(&name, at));
                        if line.send(&put).is_ok_and(|answer| answer.status == 200) {
                            done.push((name, at));
                        } else if !goes_on() {
                            break;
                        }
                    }
                    done
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("no client panics")).collect()
    })
}

fn what_was_acknowledged_under_a_forgotten_lease_stays_what_it_is(engine: Engine) {
    let Some(mut fleet) = Fleet::new(engine, Place::Folder) else { return };
    let first = fleet.first.start();
    first.client.put("/box", b"").expect(200);
    // It has a session and no numbers: nothing was made through it.
    let second = fleet.second().start();
    let mut database = fleet.database.take().expect("a server");
    let past = database.remember();
    assert_eq!(put(&second.client, "before", BEFORE), BEFORE);
    database.kill();
    database.restore(&past);
    fleet.database = Some(database);
    let acknowledged = put_together(&second);
    end_by_themselves(vec![first, second]);
    let [first, second] = [fleet.first.start(), fleet.second().start()];
    // Nobody has forgotten more than there was: the fault is that these are gone.
    assert!(matches!(look(&first.client, "/box/before/0"), Found::Absent), "nothing was put back");
    assert_eq!(put(&second.client, "later", OBJECTS), OBJECTS);
    assert_eq!(put(&first.client, "latest", OBJECTS), OBJECTS);
    let mine = |name: &'static str| (0..OBJECTS).map(move |at| (name.to_owned(), at));
    let all = acknowledged.iter().cloned().chain(mine("later")).chain(mine("latest"));
    let wrong = all.filter(|(name, at)| match look(&first.client, &format!("/box/{name}/{at}")) {
        Found::Is(body, tag) => body != content(name, *at) || tag != etag(&body),
        _ => true,
    });
    let (wrong, acknowledged) = (wrong.count(), acknowledged.len());
    eprintln!(
        "{}: {acknowledged} acknowledged after the restore, {wrong} objects are not what was put",
        engine.name()
    );
    assert_eq!(wrong, 0, "of {acknowledged} acknowledged after the restore and {OBJECTS} later");
    fleet.ends_tidy(vec![first, second]);
}
