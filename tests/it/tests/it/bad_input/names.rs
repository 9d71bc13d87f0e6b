//! Names that are refused, and names that only look like paths outside the bucket.

use super::Scene;
use crate::client::Request;
use crate::content::bytes;

/// Percent-encoded names that cannot be keys, with their error codes.
fn bad_keys() -> Vec<(String, &'static str)> {
    vec![
        ("k".repeat(1025), "KeyTooLongError"),
        ("%C3%A4".repeat(513), "KeyTooLongError"),
        ("a%00b".to_owned(), "InvalidArgument"),
        ("%00".to_owned(), "InvalidArgument"),
        ("a%ffb".to_owned(), "InvalidArgument"),
        ("a%c0%afb".to_owned(), "InvalidArgument"),
        ("%ed%a0%80".to_owned(), "InvalidArgument"),
    ]
}

#[test]
fn invalid_keys_are_refused_in_every_request() {
    let mut scene = Scene::new();
    for (key, code) in bad_keys() {
        for method in ["PUT", "GET", "DELETE"] {
            let request = Request::new(method, &format!("/box/{key}"));
            let request = if method == "PUT" { request.body(bytes(9, 100_000)) } else { request };
            scene.refuses(&request, 400, code);
        }
        scene.refuses(&Request::new("POST", &format!("/box/{key}?uploads")), 400, code);
        let copy =
            Request::new("PUT", "/box/large").header("x-amz-copy-source", &format!("/box/{key}"));
        let answer = scene.client.send(&copy);
        assert_eq!(answer.status, 400, "{key}: {}", answer.text());
    }
    let long = "k".repeat(1025);
    let document = format!("<Delete><Object><Key>{long}</Key></Object></Delete>");
    let answer = scene.client.send(&Request::new("POST", "/box?delete").body(document));
    assert!(!answer.text().contains("<Deleted>"), "{}", answer.text());
    let nul = "<Delete><Object><Key>small\0</Key></Object></Delete>";
    scene.refuses(&Request::new("POST", "/box?delete").body(nul), 400, "InvalidArgument");
    for broken in ["/box/a%", "/box/a%2", "/box/a%zz"] {
        scene.refuses(&Request::new("GET", broken), 400, "InvalidURI");
    }
    scene.stays_untouched();
}

#[test]
fn copy_sources_without_an_object_are_refused() {
    let mut scene = Scene::new();
    for (source, status, code) in [
        ("", 400, "InvalidArgument"),
        ("/", 400, "InvalidArgument"),
        ("box", 400, "InvalidArgument"),
        ("/box/", 400, "InvalidArgument"),
        ("/box/none", 404, "NoSuchKey"),
        ("/none/small", 404, "NoSuchBucket"),
        ("/box/../box/small", 404, "NoSuchKey"),
        ("/box/%2e%2e/box/small", 404, "NoSuchKey"),
        ("/other/../box/small", 404, "NoSuchBucket"),
    ] {
        let copy = Request::new("PUT", "/box/large").header("x-amz-copy-source", source);
        scene.refuses(&copy, status, code);
    }
    scene.stays_untouched();
}

/// Keys are bytes, not paths: dots and slashes have no special meaning.
#[test]
fn dots_and_slashes_are_part_of_a_key() {
    let scene = Scene::new();
    let spellings = [
        ("/box/../escape", "../escape"),
        ("/box/..%2f..%2fescape", "../../escape"),
        ("/box/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "../../../etc/passwd"),
        ("/box/a%2fb", "a/b"),
        ("/box/a//b", "a//b"),
        ("/box//a", "/a"),
        ("/box/.", "."),
        ("/box/%252e%252e/x", "%2e%2e/x"),
        ("/box/back%5cslash", "back\\slash"),
    ];
    for (at, (path, _)) in spellings.iter().enumerate() {
        scene.client.put(path, &bytes(at as u64 + 100, 2000)).expect(200);
    }
    let mut wanted: Vec<&str> = spellings.iter().map(|(_, key)| *key).collect();
    wanted.extend(["large", "middle", "small"]);
    wanted.sort_unstable();
    let keys = scene.client.keys("box", "", 1000);
    assert_eq!(keys, wanted);
    for (at, (path, _)) in spellings.iter().enumerate() {
        let stored = scene.client.get(path).expect(200);
        assert!(stored.body == bytes(at as u64 + 100, 2000), "{path}");
        scene.client.delete(path).expect(204);
    }
    // No file was created outside the folders of the gateway.
    let inside = crate::servers::files(&scene.setup.folder);
    let got_out = |path: &&std::path::PathBuf| {
        path.file_name().is_some_and(|name| name == "escape" || name == "passwd")
    };
    assert_eq!(inside.iter().find(got_out), None);
    let mut scene = scene;
    scene.refuses(&Request::new("GET", "/box/../escape"), 404, "NoSuchKey");
    scene.stays_untouched();
}

#[test]
fn bucket_names_follow_rules() {
    let mut scene = Scene::new();
    for name in ["Box", "ab", "a..b", "-ab", "ab-", "192.168.0.1", "under_score", "%2e%2e"] {
        scene.refuses(&Request::new("PUT", &format!("/{name}")), 400, "InvalidBucketName");
    }
    let long = "b".repeat(64);
    scene.refuses(&Request::new("PUT", &format!("/{long}")), 400, "InvalidBucketName");
    scene.stays_untouched();
}
