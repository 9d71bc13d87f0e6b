//! Gateways with different clocks: the order of two transmissions of a part does not depend on
//! clocks.

use crate::client::{Client, Request, part_list};
use crate::content::bytes;
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_the_drawn_server};
use crate::servers::Gateway;

on_the_drawn_server!(the_later_transmission_of_a_part_counts_despite_clock_skew);

/// The delay of the second gateway's clock, in seconds.
const BEHIND: i64 = 20;

/// Length of a part in bytes.
const SIZE: usize = 30_000;

/// Returns the time of day of a gateway's clock, in seconds.
pub(crate) fn clock(client: &Client) -> i64 {
    client.put("/box/clock", b"now").expect(200);
    let head = client.send(&Request::new("HEAD", "/box/clock")).expect(200);
    let words: Vec<String> = head.header("last-modified").split(' ').map(str::to_owned).collect();
    let time = words.get(4).expect("a time of day").split(':');
    time.fold(0, |sum, digits| sum * 60 + digits.parse::<i64>().expect("digits"))
}

/// Sends part 1 and returns its `ETag`.
fn send(client: &Client, upload: &str, seed: u64) -> String {
    let target = format!("/box/object?partNumber=1&uploadId={upload}");
    client.put(&target, &bytes(seed, SIZE)).expect(200).header("etag").to_owned()
}

fn the_later_transmission_of_a_part_counts_despite_clock_skew(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let Some(second) = fleet.second().clock_behind(BEHIND) else { return };
    let gateways = vec![fleet.first.start(), second.start()];
    let [right, behind] = clients(&gateways);
    right.put("/box", b"").expect(200);
    let day = 24 * 60 * 60;
    let differ = (clock(&right) - clock(&behind)).rem_euclid(day);
    assert!((BEHIND - 5..=BEHIND + 1).contains(&differ), "the clocks differ by {differ} s");
    for (turn, (one, other)) in [(&right, &behind), (&behind, &right)].into_iter().enumerate() {
        let upload = one.begin_upload("/box/object");
        let seeds = [2 * turn as u64 + 1, 2 * turn as u64 + 2];
        send(one, &upload, seeds[0]);
        let later = send(other, &upload, seeds[1]);
        let parts = one.get(&format!("/box/object?uploadId={upload}")).expect(200);
        assert_eq!(parts.element("ETag").replace("&quot;", "\""), later, "turn {turn}");
        let complete = Request::new("POST", &format!("/box/object?uploadId={upload}"));
        let complete = complete.body(part_list(&[(1, &later)]));
        let completed = one.send(&complete);
        assert_eq!(completed.code(), "", "turn {turn}: {}", completed.text());
        for client in [one, other] {
            let found = client.get("/box/object").expect(200);
            assert!(found.body == bytes(seeds[1], SIZE), "turn {turn}: not what was sent last");
        }
    }
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}
