//! Quotas of buckets, set under running gateways and reached by concurrent clients.

use std::sync::Barrier;
use std::time::Duration;

use crate::client::{Line, Request};
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine};
use crate::servers::wait_for;

on_each_engine!(concurrent_puts_fill_a_quota_exactly);

/// Number of concurrent clients.
const RACERS: usize = 16;

/// Number of further objects that the quota allows.
const ROOM: usize = 5;

/// The time limit until gateways know a change, on a busy machine.
const HEARD: Duration = Duration::from_secs(5);

fn concurrent_puts_fill_a_quota_exactly(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let mut gateways = vec![fleet.first.clone().start()];
    if engine != Engine::Sqlite {
        gateways.push(fleet.second().start());
    }
    let clients = &clients(&gateways);
    clients[0].put("/box", b"").expect(200);
    clients[0].put("/box/first", b"first").expect(200);
    let most = (1 + ROOM).to_string();
    let (status, said) = fleet.first.run("bucket", &["quota", "box", "--objects", &most]);
    assert!(status.success() && said.contains(&format!("1 of {most}")), "{said}");

    // Each commit checks the quota, even if its gateway does not know it yet. So the test need not
    // wait.
    let start = &Barrier::new(RACERS);
    let told: Vec<u16> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                scope.spawn(move || {
                    let mut line = Line::new(&clients[racer % 2]);
                    let body = format!("racer {racer}");
                    let request = Request::new("PUT", &format!("/box/{racer}")).body(body);
                    start.wait();
                    line.send(&request).map_or(0, |answer| answer.status)
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("no racer panics")).collect()
    });
    let of = |status: u16| told.iter().filter(|told| **told == status).count();
    assert_eq!((of(200), of(403)), (ROOM, RACERS - ROOM), "{told:?}");

    let refused = clients[1].put("/box/more", b"more").expect(403);
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("<Code>QuotaExceeded</Code>"), "{text}");
    clients[1].put("/box/first", b"again").expect(200);
    let (_, said) = fleet.first.run("bucket", &["list"]);
    assert!(said.contains(&format!("box\t{most} of {most}\t")), "{said}");

    let (status, said) = fleet.first.run("bucket", &["quota", "box", "--none"]);
    assert!(status.success(), "{said}");
    for client in clients {
        let taken = || client.put("/box/more", b"more").status == 200;
        assert!(wait_for(HEARD, taken), "a gateway does not hear of the change");
    }
}
