//! Buckets whose entity tags do not depend on the content. The setting changes under running
//! gateways, and each gateway follows it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};

use crate::client::{Answer, Client, Request, part_list};
use crate::content::{bytes, etag, etag_of_parts};
use crate::costs::trips;
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine};
use crate::servers::{Gateway, wait_for};

on_each_engine!(opaque_etags_work_in_conditions_copies_and_uploads);

/// The time limit until gateways know a change, on a busy machine.
const HEARD: Duration = Duration::from_secs(5);

/// The smallest allowed size of a part that is not the last, in bytes.
const PART: usize = 5 << 20;

const KEY: &str = "/box/d/key";

/// Returns a content of several blocks.
fn content() -> Vec<u8> {
    bytes(1, 300_000)
}

/// Returns true for 32 hexadecimal digits, a dash and a 1. Clients do not take that for an MD5.
fn is_opaque(tag: &str) -> bool {
    let text = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let Some((digits, number)) = text.and_then(|text| text.split_once('-')) else { return false };
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && number == "1"
}

/// Puts an object and returns its entity tag.
#[track_caller]
fn put(client: &Client, key: &str, content: &[u8]) -> String {
    client.put(key, content).expect(200).header("etag").to_owned()
}

fn opaque_etags_work_in_conditions_copies_and_uploads(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let log = ["--log", "info,access=debug", "--block-bytes", "64KiB"];
    let mut gateways = vec![fleet.first.clone().options(&log).start()];
    if engine != Engine::Sqlite {
        gateways.push(fleet.second().options(&log).start());
    }
    let [one, other] = clients(&gateways);
    one.put("/box", b"").expect(200);
    for client in [&one, &other] {
        assert_eq!(put(client, "/box/before", &content()), etag(&content()));
    }

    let set = |value: &str| {
        let (status, said) = fleet.first.run("bucket", &["set", "box", "--opaque-etags", value]);
        assert!(status.success(), "{said}");
        let (_, said) = fleet.first.run("bucket", &["show", "box"]);
        let shown = if value == "true" { "yes" } else { "no" };
        assert!(said.contains(&format!("opaque etags      {shown}\n")), "{said}");
    };
    let hear = |opaque: bool| {
        for client in [&one, &other] {
            let heard = || is_opaque(&put(client, KEY, &content())) == opaque;
            assert!(wait_for(HEARD, heard), "a gateway does not hear of the change");
        }
    };
    set("true");
    hear(true);
    let kept = one.get("/box/before").expect(200);
    assert_eq!(kept.header("etag"), etag(&content()), "an existing object keeps its ETag");

    conditions_and_ranges(&gateways[0], &one, &other);
    a_sent_md5_is_verified(&one);
    copies_keep_the_tag(&one, &other);
    an_upload_is_completed_by_the_tags_of_its_parts(&one, &other);
    an_upload_whose_md5s_were_sent_has_the_tag_that_they_make(&one, &other);

    set("false");
    hear(false);
    fleet.stop_and_check(gateways);
}

fn conditions_and_ranges(gateway: &Gateway, one: &Client, other: &Client) {
    let content = content();
    let first = put(one, KEY, &content);
    let tag = put(one, KEY, &content);
    assert!(is_opaque(&tag) && is_opaque(&first) && first != tag, "{first} {tag}");
    // Only this gateway writes the key, so no invalidation by the other one is in flight.
    put(one, "/box/d/of-one", &content);
    put(one, "/box/d/of-one", &content);
    assert_eq!(trips(gateway, "PutObject"), (0, 1), "the setting is remembered");
    let head = other.send(&Request::new("HEAD", KEY)).expect(200);
    assert_eq!(head.header("etag"), tag);
    let listed = other.get("/box?list-type=2&prefix=d%2Fkey").expect(200);
    assert_eq!(listed.elements("ETag"), [tag.replace('"', "&quot;")]);

    let get = |name: &str, tag: &str| other.send(&Request::new("GET", KEY).header(name, tag));
    assert!(get("if-match", &tag).expect(200).body == content);
    get("if-match", &first).expect(412);
    get("if-none-match", &tag).expect(304);
    get("if-none-match", &first).expect(200);
    let range = Request::new("GET", KEY).header("range", "bytes=65000-66000");
    let range = other.send(&range.header("if-range", &tag)).expect(206);
    assert!(range.body == content[65_000..=66_000]);
    let part = other.get(&format!("{KEY}?partNumber=1")).expect(206);
    assert!(part.body == content, "the object is its only part");

    let overwrite = |tag: &str| Request::new("PUT", KEY).header("if-match", tag).body("new");
    one.send(&overwrite(&first)).expect(412);
    let written = other.send(&overwrite(&tag)).expect(200);
    assert!(is_opaque(written.header("etag")), "also of the smallest object");
    one.send(&overwrite(&tag)).expect(412);
}

fn a_sent_md5_is_verified(client: &Client) {
    let send = |of: &[u8]| -> Answer {
        let md5 = STANDARD.encode(Md5::digest(of));
        client.send(&Request::new("PUT", KEY).header("content-md5", &md5).body(content()))
    };
    let before = client.get(KEY).expect(200);
    assert_eq!(send(b"other").expect(400).code(), "BadDigest");
    assert_eq!(client.get(KEY).expect(200).header("etag"), before.header("etag"));
    assert!(is_opaque(send(&content()).expect(200).header("etag")));
}

fn copies_keep_the_tag(one: &Client, other: &Client) {
    let tag = put(one, KEY, &content());
    let copy = Request::new("PUT", "/box/copy").header("x-amz-copy-source", KEY);
    other.send(&copy.header("x-amz-copy-source-if-match", &tag)).expect(200);
    assert_eq!(one.get("/box/copy").expect(200).header("etag"), tag);
}

fn an_upload_is_completed_by_the_tags_of_its_parts(one: &Client, other: &Client) {
    let contents = [bytes(1, PART), bytes(2, PART), bytes(3, 30_000)];
    let key = "/box/upload";
    let upload = one.begin_upload(key);
    let path = |number: usize| format!("{key}?partNumber={number}&uploadId={upload}");
    let put = |number: usize, client: &Client| put(client, &path(number), &contents[number - 1]);
    let replaced = put(1, one);
    let tags = [put(1, other), put(2, one), put(3, other)];
    assert!(tags.iter().all(|tag| is_opaque(tag)), "{tags:?}");
    let listed = other.get(&format!("{key}?uploadId={upload}")).expect(200).elements("ETag");
    let quoted: Vec<String> = tags.iter().map(|tag| tag.replace('"', "&quot;")).collect();
    assert_eq!(listed, quoted);

    let complete = |tags: &[String]| {
        let list = part_list(&[(1, &tags[0]), (2, &tags[1]), (3, &tags[2])]);
        other.send(&Request::new("POST", &format!("{key}?uploadId={upload}")).body(list))
    };
    // Entity tags identify the transmissions of parts; only the last one of each part is valid.
    assert_ne!(replaced, tags[0]);
    let mixed = [tags[1].clone(), tags[0].clone(), tags[2].clone()];
    assert_eq!(complete(&mixed).expect(400).code(), "InvalidPart");
    let md5s: Vec<String> = contents.iter().map(|content| etag(content)).collect();
    assert_eq!(
        complete(&md5s).expect(400).code(),
        "InvalidPart",
        "the MD5s are not the ETags of the parts"
    );

    let whole = complete(&tags).expect(200).element("ETag");
    assert!(whole.ends_with("-3&quot;"), "{whole}");
    assert_eq!(complete(&tags).expect(200).element("ETag"), whole, "told again");
    let read = one.get(key).expect(200);
    assert!(read.body == contents.concat(), "the parts are one object");
    assert_eq!(read.header("etag").replace('"', "&quot;"), whole);
}

/// Clients that send the MD5 of each part compare the entity tag of the whole with their own.
fn an_upload_whose_md5s_were_sent_has_the_tag_that_they_make(one: &Client, other: &Client) {
    let contents = [bytes(4, PART), bytes(5, 30_000)];
    let key = "/box/upload";
    let upload = one.begin_upload(key);
    let send = |number: u32, content: &[u8], md5_of: &[u8]| {
        let path = format!("{key}?partNumber={number}&uploadId={upload}");
        let md5 = STANDARD.encode(Md5::digest(md5_of));
        one.send(&Request::new("PUT", &path).header("content-md5", &md5).body(content))
    };
    let [first, second] = &contents;
    assert_eq!(send(1, first, b"other").expect(400).code(), "BadDigest");
    assert_eq!(send(1, first, first).expect(200).header("etag"), etag(first));
    assert_eq!(send(2, second, second).expect(200).header("etag"), etag(second));
    let list = part_list(&[(1, &etag(first)), (2, &etag(second))]);
    let complete = Request::new("POST", &format!("{key}?uploadId={upload}")).body(list);
    other.send(&complete).expect(200);
    assert_eq!(other.get(key).expect(200).header("etag"), etag_of_parts(&[first, second]));
}
