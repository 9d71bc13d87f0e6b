//! Keys below many directories, on each engine: all operations on such a key, by a gateway with an
//! empty cache.

pub(crate) mod driver;

use crate::client::Request;
use crate::costs::trips;
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_engine};
use crate::servers::Gateway;

on_the_drawn_engine!(a_deep_key_is_served_with_an_empty_cache);

/// Number of slashes in the deepest allowed key.
const DEEPEST: usize = 512;

/// Number of directories that are created one by one, so that the inode number of the next one
/// cannot be predicted.
const GROWN: usize = 60;

fn deletion(keys: &[String]) -> Request {
    let objects = keys.iter().map(|key| format!("<Object><Key>{key}</Key></Object>"));
    let body = format!("<Delete>{}</Delete>", objects.collect::<String>());
    Request::new("POST", "/box?delete").body(body)
}

fn options() -> [&'static str; 4] {
    ["--log", "info,access=debug", "--authoritative-reads", "false"]
}

/// Restarts the gateway, so that its cache is empty.
fn anew(fleet: &Fleet, gateway: Gateway) -> Gateway {
    gateway.stop();
    fleet.first.clone().options(&options()).start()
}

fn a_deep_key_is_served_with_an_empty_cache(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let mut gateway = fleet.first.clone().options(&options()).start();
    gateway.client.put("/box", b"").expect(200);
    let grown: Vec<String> = (1..=GROWN).map(|n| format!("{}x", "d/".repeat(n))).collect();
    for key in &grown {
        gateway.client.put(&format!("/box/{key}"), b"grown").expect(200);
    }
    let deepest = format!("e{}x", "/".repeat(DEEPEST));
    gateway.client.put(&format!("/box/{deepest}"), b"deepest").expect(200);
    let deeper = format!("/box/e{}x", "/".repeat(DEEPEST + 1));
    for method in ["PUT", "GET", "DELETE"] {
        let refused = gateway.client.send(&Request::new(method, &deeper)).expect(400);
        assert_eq!(refused.code(), "KeyTooLongError", "{method}");
    }

    gateway = anew(&fleet, gateway);
    let last = format!("/box/{}", grown[GROWN - 1]);
    assert_eq!(gateway.client.get(&last).expect(200).body, b"grown");
    let levels = GROWN as u64 + 2;
    let (reads, _) = trips(&gateway, "GetObject");
    assert!((2..=levels).contains(&reads), "{reads} reads: one for each level, none twice");
    assert_eq!(gateway.client.get(&format!("/box/{deepest}")).expect(200).body, b"deepest");
    let (reads, _) = trips(&gateway, "GetObject");
    assert!(reads <= 14, "{reads} reads where one PUT made all directories");

    gateway = anew(&fleet, gateway);
    gateway.client.put(&last, b"again").expect(200);
    let (reads, commits) = trips(&gateway, "PutObject");
    assert!(reads <= levels && commits <= 4, "{reads} reads, {commits} commits of a PUT");

    gateway = anew(&fleet, gateway);
    let mut keys = grown.clone();
    keys.push(deepest.clone());
    keys.sort();
    assert_eq!(gateway.client.keys("box", "", 1_000), keys);
    assert_eq!(gateway.client.keys("box", "", 7), keys);

    gateway = anew(&fleet, gateway);
    gateway.client.delete(&format!("/box/{deepest}")).expect(204);
    let removed = gateway.client.send(&deletion(&grown)).expect(200);
    assert_eq!(removed.elements("Key").len(), GROWN, "{}", removed.text());
    let (_, commits) = trips(&gateway, "DeleteObjects");
    assert_eq!(commits, 1, "one chain of directories is one plan");
    assert_eq!(gateway.client.keys("box", "", 1_000), Vec::<String>::new());
    gateway.client.delete("/box").expect(204);
    gateway.client.put("/box", b"").expect(200);
    fleet.stop_and_check(vec![gateway]);
}
