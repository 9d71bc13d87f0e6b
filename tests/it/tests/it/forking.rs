//! Forks of buckets under running gateways: their content, and that no block is left over or
//! missing after either bucket is removed.

use crate::client::{Client, Line, Request};
use crate::content::bytes;
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine};

on_each_engine!(a_bucket_is_forked_under_running_gateways);

/// Keys with their lengths in bytes: inline in a record, or in so many blocks that they are written
/// concurrently.
const OBJECTS: [(&str, usize); 4] =
    [("small", 100), ("d/e/blocks", 290_000), ("d/blocks", 300_000), ("d/", 0)];

/// Number of keys, for several pages of names.
const MANY: usize = 300;

fn content(key: &str, length: usize) -> Vec<u8> {
    bytes(u64::try_from(key.len()).expect("a short key"), length)
}

/// Returns the entity tag, the modification time and the content of an object.
fn headers_and_body(client: &Client, bucket: &str, key: &str) -> (String, String, Vec<u8>) {
    let answer = client.get(&format!("/{bucket}/{key}")).expect(200);
    let header = |name: &str| answer.header(name).to_owned();
    (header("etag"), header("last-modified"), answer.body.clone())
}

fn a_bucket_is_forked_under_running_gateways(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let [one, other] = clients(&gateways);
    for (key, length) in OBJECTS {
        one.put(&format!("/box/{key}"), &content(key, length)).expect(200);
    }
    let mut line = Line::new(&one);
    let mut send = |method: &str, path: &str, body: &[u8]| {
        line.send(&Request::new(method, path).body(body)).expect("an answer")
    };
    for number in 0..MANY {
        send("PUT", &format!("/box/many/{number}"), b"x").expect(200);
    }
    let before = fleet.block_names();
    let (status, said) = fleet.first.run("bucket", &["fork", "box", "copy"]);
    assert!(status.success(), "{said}");
    let files = OBJECTS.len() + MANY;
    let sum = OBJECTS.iter().map(|(_, length)| length).sum::<usize>() + MANY;
    // The output has no progress lines, because it is not a terminal.
    assert_eq!(
        said,
        format!("forked box as copy: {files} files of {sum} bytes in 3 directories\n")
    );
    assert_eq!(fleet.block_names(), before, "no block was written");
    fleet.check_consistency();
    for client in [&one, &other] {
        for (key, _) in OBJECTS {
            assert_eq!(
                headers_and_body(client, "copy", key),
                headers_and_body(client, "box", key),
                "{key}"
            );
        }
        assert_eq!(client.keys("copy", "", 1000), client.keys("box", "", 1000));
    }

    for (arguments, why) in [
        (["fork", "box", "copy"], "there is a bucket of this name"),
        (["fork", "none", "more"], "there is none of this name"),
        (["fork", "box", "No"], "cannot"),
    ] {
        let (status, said) = fleet.first.run("bucket", &arguments);
        assert!(!status.success() && said.contains(why), "{said}");
    }

    // Changes of one bucket do not affect the other.
    one.put("/copy/d/blocks", b"another").expect(200);
    other.delete("/box/d/e/blocks").expect(204);
    assert_eq!(headers_and_body(&other, "box", "d/blocks").2, content("d/blocks", 300_000));
    assert_eq!(headers_and_body(&one, "copy", "d/e/blocks").2, content("d/e/blocks", 290_000));
    for key in one.keys("copy", "", 1000) {
        send("DELETE", &format!("/copy/{key}"), b"").expect(204);
    }
    one.delete("/copy").expect(204);
    fleet.stop_and_check(gateways);
}
