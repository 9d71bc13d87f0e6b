//! The configuration of encryption of a bucket: a fork takes it, and keys of clients are blocked if
//! it says so.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest as _, Md5};

use crate::client::{Answer, Client, Request};
use crate::servers::{Blocks, Setup};

const BLOCKED: &str = "<BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType>\
                       </BlockedEncryptionTypes>";
const ALLOWED: &str = "<BlockedEncryptionTypes><EncryptionType>NONE</EncryptionType>\
                       </BlockedEncryptionTypes>";
const AES256: &str = "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>\
                      </ApplyServerSideEncryptionByDefault>";

fn configure(client: &Client, bucket: &str, rule: &str) {
    let document = format!(
        "<ServerSideEncryptionConfiguration><Rule>{rule}</Rule></ServerSideEncryptionConfiguration>"
    );
    client.put(&format!("/{bucket}?encryption"), document.as_bytes()).expect(200);
}

/// Puts an object with a key of the client.
fn put_with_key(client: &Client, path: &str) -> Answer {
    let key = [7; 32];
    let header = |name| format!("x-amz-server-side-encryption-customer-{name}");
    let put = Request::new("PUT", path).body("content");
    let put = put.header(&header("algorithm"), "AES256");
    let put = put.header(&header("key"), &BASE64_STANDARD.encode(key));
    client.send(&put.header(&header("key-md5"), &BASE64_STANDARD.encode(Md5::digest(key))))
}

#[test]
fn keys_of_clients_are_blocked_with_and_without_a_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = gateway.client.clone();
    client.put("/box", b"").expect(200);
    for (rule, blocks) in [
        (BLOCKED.to_owned(), true),
        (ALLOWED.to_owned(), false),
        (format!("{AES256}{BLOCKED}"), true),
        (AES256.to_owned(), false),
    ] {
        configure(&client, "box", &rule);
        let shown = client.get("/box?encryption").expect(200).text();
        for part in [AES256, BLOCKED, ALLOWED] {
            assert_eq!(shown.contains(part), rule.contains(part), "{shown}");
        }
        let answer = put_with_key(&client, "/box/key");
        let is_blocked = (answer.status, &*answer.code()) == (403, "AccessDenied");
        assert_eq!(is_blocked, blocks, "{rule}: {}", answer.text());
        let plain = client.put("/box/plain", b"content").expect(200);
        let mode = if rule.contains(AES256) { "AES256" } else { "" };
        assert_eq!(plain.header("x-amz-server-side-encryption"), mode, "{rule}");
    }
    client.delete("/box?encryption").expect(204);
    assert_eq!(client.get("/box?encryption").status, 404);
    gateway.check_log();
    gateway.stop();
}

#[test]
fn a_fork_takes_the_default_of_its_origin() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup::new(folder.path(), Blocks::Folder);
    let gateway = setup.start();
    let client = gateway.client.clone();
    client.put("/plain", b"").expect(200);
    client.put("/box", b"").expect(200);
    configure(&client, "box", &format!("{AES256}{BLOCKED}"));
    client.put("/box/before", b"content").expect(200);
    for (source, target) in [("box", "copy"), ("plain", "bare")] {
        let (status, said) = setup.run("bucket", &["fork", source, target]);
        assert!(status.success(), "{said}");
    }
    let shown = client.get("/copy?encryption").expect(200).text();
    assert!(shown.contains(AES256) && shown.contains(BLOCKED), "{shown}");
    assert_eq!(client.get("/bare?encryption").status, 404);
    for key in ["before", "after"] {
        if key == "after" {
            client.put("/copy/after", b"content").expect(200);
        }
        let found = client.get(&format!("/copy/{key}")).expect(200);
        assert_eq!(found.header("x-amz-server-side-encryption"), "AES256", "{key}");
    }
    assert_eq!(put_with_key(&client, "/copy/key").status, 403);
    // The origin changes alone.
    client.delete("/box?encryption").expect(204);
    assert_eq!(client.get("/copy?encryption").status, 200);
    gateway.check_log();
    gateway.stop();
    let (status, said) = setup.run("fsck", &[]);
    assert!(status.success(), "{said}");
}
