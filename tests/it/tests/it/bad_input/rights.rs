//! Access keys with restricted rights: each resource of a request is authorized.

use super::Scene;
use crate::client::{Client, Request, part_list};
use crate::content::bytes;
use crate::servers::wait_for;

/// The time limit until a gateway knows a new key, or has forgotten a removed one.
const KNOWN_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

/// Adds a policy with these statements. Returns the output.
fn policy(scene: &Scene, name: &str, statements: &str) -> String {
    let (added, said) = try_policy(scene, name, statements);
    assert!(added, "{said}");
    said
}

/// Tries to add a policy with these statements. Returns true if it was added, and the output.
fn try_policy(scene: &Scene, name: &str, statements: &str) -> (bool, String) {
    let file = scene.setup.folder.join(format!("{name}.json"));
    let document = format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#);
    std::fs::write(&file, document).expect("a file");
    let (status, said) = scene.setup.run("policy", &["add", name, file.to_str().expect("UTF-8")]);
    (status.success(), said)
}

/// Creates a key and waits until the gateway knows it.
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
fn access_keys_may_do_only_what_their_policies_allow() {
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

/// S3 has separate actions for versions of objects, and `null` names a version. So a policy that
/// denies only one of the two actions does not deny the other, as on AWS. The command that adds
/// such a policy prints a warning.
#[test]
fn a_deny_of_object_actions_does_not_cover_versions() {
    let mut scene = Scene::new();
    let all = r#"{"Effect":"Allow","Action":"s3:*","Resource":"*"}"#;
    let deny = |actions: &str| {
        format!(r#"{all},{{"Effect":"Deny","Action":{actions},"Resource":"arn:aws:s3:::box/*"}}"#)
    };
    let said = policy(&scene, "half", &deny(r#"["s3:GetObject","s3:DeleteObject"]"#));
    for pair in
        ["s3:GetObject, but not s3:GetObjectVersion", "s3:DeleteObject, but not s3:DeleteObj"]
    {
        assert!(said.contains(pair), "{said}");
    }
    let half = key(&scene, "half-denied", "half");
    half.put("/box/scratch", b"more").expect(200);
    for (method, path) in [
        ("GET", "/box/small"),
        ("HEAD", "/box/small"),
        ("DELETE", "/box/scratch"),
        ("DELETE", "/box/none"),
    ] {
        let wire = Request::new(method, path).sealed(half.signature()).wire();
        let code = if method == "HEAD" { "" } else { "AccessDenied" };
        scene.refuses_wire(method, &wire, 403, code);
    }
    assert!(half.get("/box/small?versionId=null").expect(200).body == bytes(1, 1000));
    half.delete("/box/scratch?versionId=null").expect(204);

    let said = policy(&scene, "whole", &deny(r#"["s3:GetObject*","s3:DeleteObject*"]"#));
    assert!(!said.contains("but not"), "{said}");
    let whole = key(&scene, "all-denied", "whole");
    for (method, path) in [
        ("GET", "/box/small"),
        ("GET", "/box/small?versionId=null"),
        ("DELETE", "/box/small"),
        ("DELETE", "/box/small?versionId=null"),
    ] {
        let wire = Request::new(method, path).sealed(whole.signature()).wire();
        scene.refuses_wire(method, &wire, 403, "AccessDenied");
    }
    let copy =
        Request::new("PUT", "/box/copy").header("x-amz-copy-source", "/box/small?versionId=null");
    let wire = copy.sealed(whole.signature()).wire();
    scene.refuses_wire("PUT", &wire, 403, "AccessDenied");
    scene.stays_untouched();
}

#[test]
fn a_policy_with_an_unknown_action_is_refused() {
    let mut scene = Scene::new();
    for (action, effect) in [
        ("s3:GetObjcet", "Deny"),
        ("s3:DeleteObjects", "Deny"),
        ("s3:PutObjects", "Allow"),
        ("s3:Gte*", "Deny"),
        ("s3:ListObjects", "Allow"),
        ("s4:GetObject", "Deny"),
        ("s3:", "Allow"),
        ("s3: GetObject", "Deny"),
    ] {
        for name in ["Action", "NotAction"] {
            let statement = format!(
                r#"{{"Effect":"{effect}","{name}":["s3:PutObject","{action}"],"Resource":"*"}}"#
            );
            let (added, said) = try_policy(&scene, "odd", &statement);
            assert!(!added && said.contains(&format!("{action:?}")), "{action}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    let (_, said) = scene.setup.run("policy", &["list"]);
    assert!(!said.contains("odd"), "{said}");
    // Policies written for AWS contain actions that this gateway does not use.
    let aws =
        r#"["s3:GetObject*","s3:getBucketAcl","S3:List*","s3:BypassGovernanceRetention","*"]"#;
    policy(&scene, "aws", &format!(r#"{{"Effect":"Allow","Action":{aws},"Resource":"*"}}"#));
    let denied = Request::new("GET", "/box/small").anonymous(&scene.client.address);
    scene.refuses_wire("GET", &denied, 403, "AccessDenied");
    scene.stays_untouched();
}

/// Tags may control access and lifecycles. So a copy with tags needs the right to read the tags of
/// the source and to write those of the target.
#[test]
fn copying_tags_needs_rights_to_read_and_write_them() {
    let mut scene = Scene::new();
    let tagged = Request::new("PUT", "/box/tagged").header("x-amz-tagging", "a=b").body(*b"tags");
    scene.client.send(&tagged).expect(200);
    let statement = |actions: &str, resource: &str| {
        format!(r#"{{"Effect":"Allow","Action":[{actions}],"Resource":"arn:aws:s3:::{resource}"}}"#)
    };
    let plain = statement(r#""s3:GetObject","s3:GetObjectVersion","s3:PutObject""#, "box/*");
    let reads = statement(r#""s3:GetObjectTagging""#, "box/tagged");
    let writes = statement(r#""s3:PutObjectTagging""#, "box/copy");
    let cases = [
        ("neither", plain.clone(), false),
        ("only-reads", format!("{plain},{reads}"), false),
        ("only-writes", format!("{plain},{writes}"), false),
        ("both", format!("{plain},{reads},{writes}"), true),
    ];
    for (name, statements, may) in cases {
        policy(&scene, name, &statements);
        let user = key(&scene, &format!("copies-{name}"), name);
        let copy =
            |source: &str| Request::new("PUT", "/box/copy").header("x-amz-copy-source", source);
        user.send(&copy("/box/small")).expect(200);
        let anew = copy("/box/tagged").header("x-amz-tagging-directive", "REPLACE");
        user.send(&anew).expect(200);
        scene.client.delete("/box/copy").expect(204);
        if may {
            user.send(&copy("/box/tagged")).expect(200);
            let tags = scene.client.get("/box/copy?tagging").expect(200);
            assert_eq!(tags.element("Key"), "a");
            scene.client.delete("/box/copy").expect(204);
            // Reading the tags of a version is a separate action.
            let wire = copy("/box/tagged?versionId=null").sealed(user.signature()).wire();
            scene.refuses_wire("PUT", &wire, 403, "AccessDenied");
            continue;
        }
        let wire = copy("/box/tagged").sealed(user.signature()).wire();
        scene.refuses_wire("PUT", &wire, 403, "AccessDenied");
    }
    scene.client.delete("/box/tagged").expect(204);
    scene.stays_untouched();
}

/// A condition on an entity tag needs the right to read, as on AWS, so that a client without it
/// cannot find the tag by trying. A condition on mere existence does not need it.
#[test]
fn a_condition_on_an_etag_needs_the_right_to_read() {
    let mut scene = Scene::new();
    let may_write = r#"{"Effect":"Allow","Action":["s3:PutObject","s3:DeleteObject",
        "s3:DeleteObjectVersion"],"Resource":"*"}"#;
    let may_read = r#"{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}"#;
    let content = bytes(1, 1000);
    let tag = crate::content::etag(&content);
    policy(&scene, "writes", may_write);
    policy(&scene, "reads-too", &format!("{may_write},{may_read}"));
    let writer = key(&scene, "blind-writer", "writes");
    let seeing = key(&scene, "seeing-writer", "reads-too");
    let upload = scene.client.begin_upload("/box/small");
    let complete = Request::new("POST", &format!("/box/small?uploadId={upload}"))
        .body(part_list(&[(1, "\"00000000000000000000000000000000\"")]));
    let put = Request::new("PUT", "/box/small").body(content.clone());
    let other = "\"00000000000000000000000000000000\"";
    for condition in [tag.as_str(), other, &format!("{other}, {tag}"), "W/\"1\"", ""] {
        for request in [put.clone(), Request::new("DELETE", "/box/small"), complete.clone()] {
            let request = request.header("if-match", condition);
            let wire = request.sealed(writer.signature()).wire();
            scene.refuses_wire(&request.method, &wire, 403, "AccessDenied");
        }
    }
    let many = |tag: &str| {
        let text = format!("<Delete><Object><Key>small</Key><ETag>{tag}</ETag></Object></Delete>");
        Request::new("POST", "/box?delete").body(text)
    };
    for tag in [&tag, other] {
        let said = writer.send(&many(tag)).expect(200);
        assert_eq!(said.elements("Code"), ["AccessDenied"], "{}", said.text());
    }
    let said = seeing.send(&many(other)).expect(200);
    assert_eq!(said.elements("Code"), ["PreconditionFailed"], "{}", said.text());

    for (condition, value) in [("if-none-match", "*"), ("if-match", other)] {
        let wire = put.clone().header(condition, value).sealed(seeing.signature()).wire();
        scene.refuses_wire("PUT", &wire, 412, "PreconditionFailed");
    }
    seeing.send(&put.clone().header("if-match", &tag)).expect(200);
    let wire = put.clone().header("if-none-match", "*").sealed(writer.signature()).wire();
    scene.refuses_wire("PUT", &wire, 412, "PreconditionFailed");
    writer.send(&put.clone().header("if-match", "*")).expect(200);
    writer.send(&put.header("if-none-match", "*").body("").at("/box/new")).expect(200);
    writer.send(&Request::new("DELETE", "/box/new").header("if-match", "*")).expect(204);
    scene.client.delete(&format!("/box/small?uploadId={upload}")).expect(204);
    scene.stays_untouched();
}
