//! Inode numbers that a gateway leased after the moment. The store has lost that lease and assigns
//! the numbers again.

use super::look::{Found, look};
use super::*;
use crate::fleet::on_each_server;

on_each_server!(objects_of_a_lost_inode_lease_keep_their_content);

/// Number of objects that are put before the restore.
const BEFORE: u64 = 10;

/// Number of objects that each later gateway puts: more than under the lost lease.
const OBJECTS: u64 = 80;

/// Number of concurrent clients after the restore.
const CLIENTS: u64 = 8;

/// A body that is inline in a record. An inode number that is assigned twice would replace it.
fn content(name: &str, at: u64) -> Vec<u8> {
    format!("{name} {at}").into_bytes()
}

/// Puts objects until one is not acknowledged, or `most` are. Returns the number of acknowledged
/// ones.
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

/// Puts objects by concurrent clients through a gateway that runs through the restore, until it
/// ends. Requests that arrive while another one is served use further lanes of inode numbers, which
/// were leased after the restore. Returns the acknowledged objects.
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

fn objects_of_a_lost_inode_lease_keep_their_content(engine: Engine) {
    let Some(mut fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let first = fleet.first.start();
    first.client.put("/box", b"").expect(200);
    // The second gateway has a session and no inode numbers, since it has created nothing.
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
    // These objects must be gone; otherwise the restore did not take back the lease.
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
        "{}: {acknowledged} acknowledged after the restore, {wrong} objects have other content",
        engine.name()
    );
    assert_eq!(wrong, 0, "of {acknowledged} acknowledged after the restore and {OBJECTS} later");
    fleet.stop_and_check(vec![first, second]);
}
