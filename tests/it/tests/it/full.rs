//! A Redis at its memory limit refuses requests that need more memory, and can be emptied through
//! S3.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::fleet::{BlockKind, Engine, Fleet};
use crate::restarts::redis;
use crate::servers::wait_for;

/// More objects than the server can hold.
const MOST: usize = 6_000;

/// The time limit of a refusal.
const REFUSED_WITHIN: Duration = Duration::from_secs(10);

/// The time limit until deletes have made space.
const ROOM_AGAIN: Duration = Duration::from_secs(30);

/// Puts objects until one is refused. Returns the number of stored ones. The bodies are staged
/// inline in the metadata.
fn fill(client: &Client, name: &str) -> usize {
    let body = [7; 3_500];
    for number in 0..MOST {
        let began = Instant::now();
        let answer = client.put(&format!("/box/{name}-{number}"), &body);
        if answer.status != 200 {
            assert_eq!((answer.status, answer.code().as_str()), (507, "XMinioStorageFull"));
            assert!(began.elapsed() < REFUSED_WITHIN, "{:?}", began.elapsed());
            return number;
        }
    }
    panic!("the server does not fill up");
}

#[test]
fn a_full_redis_is_emptied_through_s3_and_takes_objects_again() {
    let Some(fleet) = Fleet::new(Engine::Redis, BlockKind::Folder) else { return };
    let database = fleet.database.as_ref().expect("a server");
    // By default, staged bodies move to blocks after a while; here they must fill the metadata
    // store.
    let setup = fleet.first.clone().options(&["--staged-inline-bytes", "64MiB"]);
    let gateway = setup.start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    redis(database, "CONFIG SET maxmemory 8mb");
    let count = fill(client, "first");
    assert!(count > 50, "{count} objects are no test");
    // The gateway still sends heartbeats and reads, and it keeps its session.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(client.get("/box/first-0").expect(200).body.len(), 3_500);
    assert!(
        gateway.admin_page("/status").contains(r#""session": "ok""#),
        "{}",
        gateway.admin_page("/status")
    );
    // Clients that keep trying to put do not delay a client that deletes.
    std::thread::scope(|scope| {
        let putting = scope.spawn(|| {
            for number in 0..200 {
                let body = vec![7; 100_000];
                let _full = client.put(&format!("/box/vain-{number}"), &body);
            }
        });
        for number in 0..count {
            client.delete(&format!("/box/first-{number}")).expect(204);
        }
        putting.join().expect("the thread ends");
    });
    let again = || client.put("/box/again", &[7; 3_500]).status == 200;
    assert!(wait_for(ROOM_AGAIN, again), "there is no room yet:\n{}", gateway.log());
    let second = fill(client, "second");
    assert!(second > count / 2, "{second} objects after {count}");
    gateway.check_log();
    // A gateway that starts on the full server can empty it as well.
    gateway.stop();
    let gateway = setup.start();
    for number in 0..second {
        gateway.client.delete(&format!("/box/second-{number}")).expect(204);
    }
    let again = || gateway.client.put("/box/more", &[7; 3_500]).status == 200;
    assert!(wait_for(ROOM_AGAIN, again), "there is no room yet:\n{}", gateway.log());
    redis(database, "CONFIG SET maxmemory 0");
    fleet.stop_and_check(vec![gateway]);
}

/// A setting that becomes weaker under a running gateway is reported at once, and so is its repair.
#[test]
fn weaker_settings_of_a_running_redis_are_reported() {
    let Some(fleet) = Fleet::new(Engine::Redis, BlockKind::Folder) else { return };
    let database = fleet.database.as_ref().expect("a server");
    let relaxed = fleet.first.clone().options(&["--metadata-durability=relaxed"]);
    let gateway = relaxed.start();
    let careful = fleet.second().start();
    gateway.client.put("/box", b"").expect(200);
    let says = |durability: &str, strict: u64| {
        let status = gateway.admin_page("/status");
        status.contains(&format!(r#""durability": "{durability}""#))
            && gateway.counter("ashlar_metadata_durability_strict ") == strict
    };
    assert!(says("strict", 1), "{}", gateway.admin_page("/status"));
    redis(database, "CONFIG SET appendfsync no");
    assert!(wait_for(ROOM_AGAIN, || says("relaxed", 0)), "{}", gateway.admin_page("/status"));
    let log = gateway.log_of_this_run();
    let warned =
        log.lines().any(|line| line.contains("WARN") && line.contains("appendfsync is no"));
    assert!(warned, "{log}");
    gateway.client.put("/box/object", b"content").expect(200);
    let refused = || careful.client.put("/box/other", b"other").status == 503;
    assert!(wait_for(ROOM_AGAIN, refused), "the gateway that requires durability still serves");
    assert_eq!(gateway.client.get("/box/object").expect(200).text(), "content");
    redis(database, "CONFIG SET appendfsync always");
    assert!(wait_for(ROOM_AGAIN, || says("strict", 1)), "{}", gateway.admin_page("/status"));
    let served = || careful.client.put("/box/other", b"other").status == 200;
    assert!(wait_for(ROOM_AGAIN, served), "it does not serve again");
    fleet.stop_and_check(vec![careful, gateway]);
}
