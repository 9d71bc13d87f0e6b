//! Keys that may do some things and not others: each resource of a request is asked about.

use super::Scene;
use crate::client::{Client, Request, part_list};
use crate::content::bytes;
use crate::servers::wait_for;

/// How soon a gateway knows of a new key, and forgets one that is gone.
const KNOWN_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

/// Makes a key, and waits until the gateway knows it.
fn key(scene: &Scene, name: &str, policy: &str) -> Client {
    let arguments = ["add", name, "--policy", policy];
    let (status, said) = scene.setup.run("user", &arguments);
    assert!(status.success(), "{status}\n{said}");
    let secret = said.lines().find_map(|line| line.strip_prefix("secret key"));
    let secret = secret.expect("a secret is printed").trim().to_owned();
    let address = scene.client.address.clone();
    let client = Client { address, key: name.to_owned(), secret };
    let known = || client.get("/").code() != "InvalidAccessKeyId";
    assert!(wait_for(KNOWN_AFTER, known), "{name} is not known:\n{said}");
    client
}

#[test]
fn keys_do_what_their_policies_say_and_no_more() {
    let mut scene = Scene::new();
    let upload = scene.client.begin_upload("/box/parts");
    let part = format!("/box/parts?partNumber=1&uploadId={upload}");
    let reader = key(&scene, "a-reader", "readonly");
    let read = reader.get("/box/middle").expect(200);
    assert!(read.body == bytes(2, 50_000), "a reader reads");
    let delete = "<Delete><Object><Key>small</Key></Object></Delete>";
    let complete = part_list(&[(1, "\"00000000000000000000000000000000\"")]);
    let complete_at = format!("/box/parts?uploadId={upload}");
    let copy = Request::new("PUT", "/box/copy").header("x-amz-copy-source", "/box/small");
    for request in [
        Request::new("PUT", "/box/small").body(bytes(9, 100_000)),
        Request::new("PUT", "/new"),
        Request::new("DELETE", "/box/small"),
        Request::new("DELETE", "/box/none"),
        Request::new("POST", "/box/other?uploads"),
        Request::new("PUT", &part).body(bytes(9, 100_000)),
        Request::new("POST", &complete_at).body(complete),
        Request::new("DELETE", &complete_at),
        Request::new("PUT", "/box/small?tagging").body(*b"<Tagging/>"),
        copy.clone(),
    ] {
        let wire = request.sealed(reader.signature()).wire();
        scene.refuses_wire(&request.method, &wire, 403, "AccessDenied");
    }
    let answer = reader.send(&Request::new("POST", "/box?delete").body(delete));
    assert!(!answer.text().contains("<Deleted>"), "{}", answer.text());

    let writer = key(&scene, "a-writer", "writeonly");
    let mut part_copy = copy.clone();
    part.split_once('?').expect("a query").1.clone_into(&mut part_copy.query);
    "/box/parts".clone_into(&mut part_copy.path);
    for request in [Request::new("GET", "/box/small"), copy, part_copy] {
        let wire = request.sealed(writer.signature()).wire();
        scene.refuses_wire(&request.method, &wire, 403, "AccessDenied");
    }
    writer.put("/box/written", &bytes(9, 100)).expect(200);
    scene.client.delete("/box/written").expect(204);

    let (status, said) = scene.setup.run("user", &["remove", "a-reader"]);
    assert!(status.success(), "{status}\n{said}");
    let gone = wait_for(KNOWN_AFTER, || reader.get("/box/small").code() == "InvalidAccessKeyId");
    assert!(gone, "a key that was removed still works");
    scene.client.delete(&complete_at).expect(204);
    scene.stays_untouched();
}
