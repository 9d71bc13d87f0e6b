use gateway::HttpBody;
use http::HeaderMap;
use http::header::{HeaderValue, LAST_MODIFIED};
use http_body_util::BodyExt;

use super::{ArchiveQuery, BUFFER_BYTES, LEFT_OUT, entry, modified, safe_name};
use crate::world::World;

#[test]
fn names_stay_in_the_folder_of_the_archive() {
    for (key, name) in [
        ("a/b.txt", "a/b.txt"),
        ("../../etc/passwd", "_/_/etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a//b", "a/b"),
        (r"a\..\b", "a/_/b"),
        ("C:/windows", "C_/windows"),
        ("tab\there", "tab_here"),
        ("//", "_"),
    ] {
        assert_eq!(safe_name(key), name, "{key:?}");
    }
}

#[test]
fn files_have_the_time_of_their_objects_and_are_readable() {
    let mut headers = HeaderMap::new();
    headers.insert(LAST_MODIFIED, HeaderValue::from_static("Sun, 29 Nov 2026 08:42:31 GMT"));
    let time = modified(&headers);
    assert_eq!((time.year(), time.month(), time.day()), (2026, 11, 29));
    // Times of ZIP files have two-second steps.
    assert_eq!((time.hour(), time.minute(), time.second()), (8, 42, 30));
    let built = entry("a".to_owned(), time).build();
    assert_eq!(built.unix_permissions(), Some(0o100_644));
}

#[test]
fn times_that_a_zip_file_cannot_have_are_the_first_one() {
    for text in ["", "yesterday", "Sun, 29 Nov 1970 08:42:31 GMT"] {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_MODIFIED, HeaderValue::from_static(text));
        assert_eq!(modified(&headers), async_zip::ZipDateTime::default(), "{text}");
    }
}

/// The objects of the bucket `arch`. Each is longer than the bytes that wait for the client.
const OBJECTS: usize = 4;

/// A world with the bucket `arch`, and the user `cleo`, who may read it.
async fn world() -> World {
    let world = World::new().await;
    world.put("arch", None, None, "").await;
    for number in 0..OBJECTS {
        let key = format!("key-{number}");
        world.put("arch", Some(&key), None, &"x".repeat(BUFFER_BYTES + 1)).await;
    }
    world.user("cleo", &["readonly"]).await;
    world
}

/// Begins an archive as `cleo`, and reads a part of its first object.
async fn begun(world: &World) -> HttpBody {
    let cleo = world.sender("cleo");
    let query = ArchiveQuery::default();
    let mut body = world.api.archive(&world.actor(&cleo), "arch", &query).await.unwrap();
    body.frame().await.unwrap().unwrap();
    body
}

#[tokio::test]
async fn archive_ends_with_its_sender() {
    let world = world().await;
    let whole = begun(&world).await.collect().await.unwrap().to_bytes();
    assert!(whole.len() > (OBJECTS - 1) * BUFFER_BYTES);
    let body = begun(&world).await;
    world.api.admin.set_user_enabled("cleo", false, None).await.unwrap();
    world.api.follow_access().await;
    let broken = body.collect().await.unwrap_err();
    assert_eq!(broken.to_string(), "the rights of the sender have ended");
}

#[tokio::test]
async fn archive_leaves_out_what_a_changed_policy_denies() {
    let world = world().await;
    let deny = r#"{"Effect":"Deny","Action":"s3:GetObject","Resource":"arn:aws:s3:::arch/key-3"}"#;
    world.policy("limit", deny).await;
    let body = begun(&world).await;
    let policies = crate::world::names(&["readonly", "limit"]);
    world.api.admin.set_user_policies("cleo", &policies, None).await.unwrap();
    world.api.follow_access().await;
    let whole = body.collect().await.unwrap().to_bytes();
    let has = |text: &str| whole.windows(text.len()).any(|it| it == text.as_bytes());
    assert!(has("key-2") && has(LEFT_OUT) && has("\"key-3\": "));
}
