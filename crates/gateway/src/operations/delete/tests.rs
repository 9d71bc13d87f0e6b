use record::Versioning;
use s3::ObjectKey;
use s3::conditions::ETagList;

use super::*;
use crate::operations::racing::{Meanwhile, World};

#[test]
fn only_a_deletion_with_a_condition_conflicts_with_others() {
    let code = |condition: &WritePrecondition, stat| {
        let (key, condition) = (ObjectKey::parse("k").unwrap(), condition.clone());
        let deletion = Deletion { key, version: None, condition, stat };
        refusal(VolumeError::Fs(FsError::Contended), &deletion).code
    };
    let (none, of_any) = (StatPrecondition::default(), WritePrecondition::IfMatch(ETagList::Any));
    let of_size = StatPrecondition { size: Some(1), modified: None };
    assert_eq!(code(&WritePrecondition::None, none), Code::SlowDown);
    assert_eq!(code(&of_any, none), Code::ConditionalRequestConflict);
    assert_eq!(code(&WritePrecondition::None, of_size), Code::ConditionalRequestConflict);
}

const ENTRY: &str = "<Delete><Object><Key>k</Key></Object></Delete>";
const NULL_ENTRY: &str =
    "<Delete><Object><Key>k</Key><VersionId>null</VersionId></Object></Delete>";

#[tokio::test(start_paused = true)]
async fn a_delete_never_reaches_an_object_that_its_sender_may_not_delete() {
    for sent in [
        ("DELETE", "/bkt/k", ""),
        ("DELETE", "/bkt/k?versionId=null", ""),
        ("POST", "/bkt?delete", ENTRY),
        ("POST", "/bkt?delete", NULL_ENTRY),
    ] {
        for meanwhile in [Meanwhile::Replaces("b"), Meanwhile::Retags("b")] {
            let world = World::new(meanwhile, Versioning::Off).await;
            let (status, code, body) = world.send(sent).await;
            assert_eq!(world.changes(), 1, "the object changed meanwhile: {sent:?}");
            let refused = code == Some("AccessDenied") || body.contains("<Code>AccessDenied");
            assert!(refused, "{sent:?}, {meanwhile:?}: {status}, {body}");
            assert!(world.find().await.is_some(), "{sent:?}, {meanwhile:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bypass_never_reaches_a_version_whose_lock_its_sender_may_not_bypass() {
    let world = || World::new(Meanwhile::Retags("b"), Versioning::Enabled);
    for batch in [false, true] {
        let world = world().await;
        world.retain().await;
        let version = translate::version_text(world.version.unwrap());
        let entry = format!(
            "<Delete><Object><Key>k</Key><VersionId>{version}</VersionId></Object></Delete>"
        );
        let target = format!("/bkt/k?versionId={version}");
        let sent = if batch {
            ("POST", "/bkt?delete", entry.as_str())
        } else {
            ("DELETE", target.as_str(), "")
        };
        let (status, code, body) = world.send(sent).await;
        assert_eq!(world.changes(), 1, "the object changed meanwhile: {sent:?}");
        let refused = code == Some("AccessDenied") || body.contains("<Code>AccessDenied");
        assert!(refused, "{sent:?}: {status}, {body}");
        assert!(world.find().await.is_some(), "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_reaches_the_new_object_if_its_sender_may_delete_that_too() {
    for sent in [
        ("DELETE", "/bkt/k", ""),
        ("DELETE", "/bkt/k?versionId=null", ""),
        ("POST", "/bkt?delete", ENTRY),
        ("POST", "/bkt?delete", NULL_ENTRY),
    ] {
        let world = World::new(Meanwhile::Replaces("a"), Versioning::Off).await;
        let (status, _, body) = world.send(sent).await;
        assert_eq!(world.changes(), 1, "the object changed meanwhile: {sent:?}");
        assert!(matches!(status, 200 | 204) && !body.contains("<Error>"), "{sent:?}: {body}");
        assert!(world.find().await.is_none(), "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_on_the_null_version_holds_at_the_commit() {
    let world = World::new(Meanwhile::Replaces("a"), Versioning::Off).await;
    let entry = "<Delete><Object><Key>k</Key><VersionId>null</VersionId>\
                 <ETag>00000000000000000000000000000000</ETag></Object></Delete>";
    let (status, _, body) = world.send(("POST", "/bkt?delete", entry)).await;
    assert_eq!(world.changes(), 1, "the object changed meanwhile");
    assert!(body.contains("<Code>PreconditionFailed"), "{status}, {body}");
    assert!(world.find().await.is_some());
}
