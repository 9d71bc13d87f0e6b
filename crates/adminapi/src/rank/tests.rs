use faulty::Rival;
use record::{PolicyRecord, key};
use serde_json::value::RawValue;

use crate::IfMatch;
use crate::resources::groups::NewGroup;
use crate::resources::policies::NewPolicy;
use crate::resources::users::{NewUserJson, UserPatch};
use crate::world::{World, document, names};

/// The policy of an operator who may create users and give policies, and nothing else.
const HELPER: &str = r#"{"Effect":"Allow","Action":["admin:CreateUser","admin:AddUserToGroup",
    "admin:AttachUserOrGroupPolicy"],"Resource":"*"}"#;

/// A statement that the helper may give.
const HARMLESS: &str = r#"{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}"#;

/// A statement that only an operator with all rights may give.
const ALL: &str = r#"{"Effect":"Allow","Action":"admin:*","Resource":"*"}"#;

/// A world with the operator `helper`, the user `puppet`, and the policy `p` that `helper` may
/// give.
async fn world() -> World {
    let world = World::new().await;
    world.policy("helpers", HELPER).await;
    world.policy("p", HARMLESS).await;
    world.user("helper", &["helpers"]).await;
    world.user("puppet", &[]).await;
    world
}

#[tokio::test]
async fn policy_that_does_not_exist_is_refused_at_the_check() {
    let world = world().await;
    let helper = world.sender("helper");
    let helper = world.actor(&helper);
    let missing = world.api.giver(&helper, &names(&["p", "future"])).await.unwrap_err();
    assert_eq!(missing.code, "NoSuchPolicy");
    world.policy("future", ALL).await;
    let beyond = world.api.giver(&helper, &names(&["p", "future"])).await.unwrap_err();
    assert_eq!(beyond.code, "AccessDenied");
    world.api.giver(&helper, &names(&["p", "readwrite"])).await.unwrap();
}

#[tokio::test]
async fn policy_that_is_replaced_between_check_and_commit_is_not_given() {
    let world = world().await;
    let helper = world.sender("helper");
    let helper = world.actor(&helper);
    let (policies, any) = (names(&["p"]), IfMatch::default());
    let at = key::policy("p");
    let stronger = |more: &str| PolicyRecord(document(ALL) + more).encode(&at);
    let rival = Rival { key: at.clone(), values: [stronger(""), stronger(" ")] };
    let harmless = PolicyRecord(document(HARMLESS)).encode(&at);
    let again = async || {
        *world.store.rival.lock().unwrap() = None;
        let writes = vec![store::Write::Put(at.clone(), harmless.clone())];
        world.store.commit_now(&[store::Plan { guards: Vec::new(), writes }]).await;
        *world.store.rival.lock().unwrap() = Some(rival.clone());
    };
    again().await;
    let patch = UserPatch { policies: Some(policies.clone()), ..UserPatch::default() };
    let refused = world.api.patch_user(&helper, "puppet", &patch, &any).await.unwrap_err();
    assert_eq!(refused.code, "Contended");
    assert!(world.api.admin.user("puppet").await.unwrap().policies.is_empty());
    again().await;
    let new = NewUserJson { policies: policies.clone(), ..NewUserJson::default() };
    let refused = world.api.put_user(&helper, "other", &new).await.unwrap_err();
    assert_eq!(refused.code, "Contended");
    assert!(world.api.admin.user("other").await.is_err());
    again().await;
    let new = NewGroup { policies: Some(policies), enabled: None };
    let refused = world.api.put_group(&helper, "lab", &new, &any).await.unwrap_err();
    assert_eq!(refused.code, "Contended");
    assert!(world.api.admin.group("lab").await.is_err());
}

/// An author who may change policies meets a harmless policy, or none. Before the commit another
/// sender stores one with all rights, which the author may neither replace nor remove.
#[tokio::test]
async fn policy_that_another_sender_stores_between_check_and_commit_is_not_replaced() {
    const AUTHOR: &str =
        r#"{"Effect":"Allow","Action":["admin:CreatePolicy","admin:DeletePolicy"],"Resource":"*"}"#;
    let world = world().await;
    world.policy("authors", AUTHOR).await;
    world.user("author", &["authors"]).await;
    let author = world.sender("author");
    let (author, any) = (world.actor(&author), IfMatch::default());
    let new = || NewPolicy { document: RawValue::from_string(document(HARMLESS)).unwrap() };
    for name in ["p", "absent"] {
        let at = key::policy(name);
        let stronger = |more: &str| PolicyRecord(document(ALL) + more).encode(&at);
        let rival = Rival { key: at.clone(), values: [stronger(""), stronger(" ")] };
        *world.store.rival.lock().unwrap() = Some(rival.clone());
        let refused = world.api.put_policy(&author, name, &new(), &any).await.unwrap_err();
        assert_eq!(refused.code, "Contended", "{name}");
        *world.store.rival.lock().unwrap() = None;
        let stored = world.api.admin.policy(name).await.unwrap().document;
        assert_eq!(stored.trim(), document(ALL), "{name}");
        let refused = world.api.put_policy(&author, name, &new(), &any).await.unwrap_err();
        assert_eq!(refused.code, "AccessDenied", "{name}");
    }
    world.policy("p", HARMLESS).await;
    let at = key::policy("p");
    let stronger = |more: &str| PolicyRecord(document(ALL) + more).encode(&at);
    let rival = Rival { key: at.clone(), values: [stronger(""), stronger(" ")] };
    *world.store.rival.lock().unwrap() = Some(rival);
    let refused = world.api.delete_policy(&author, "p", &any).await.unwrap_err();
    assert_eq!(refused.code, "Contended");
    *world.store.rival.lock().unwrap() = None;
    assert!(world.api.admin.policy("p").await.is_ok(), "the policy was not removed");
}

#[tokio::test]
async fn operator_gives_a_policy_that_another_one_replaces_meanwhile() {
    let world = world().await;
    let root = world.sender("root");
    let (root, any) = (world.actor(&root), IfMatch::default());
    let at = key::policy("p");
    let values = [document(ALL), document(HARMLESS)].map(|text| PolicyRecord(text).encode(&at));
    *world.store.rival.lock().unwrap() = Some(Rival { key: at, values });
    let patch = UserPatch { policies: Some(names(&["p"])), ..UserPatch::default() };
    let patched = world.api.patch_user(&root, "puppet", &patch, &any).await.unwrap();
    assert_eq!(patched.policies, ["p"]);
}

#[tokio::test]
async fn member_of_a_disabled_group_does_not_change_the_policies_of_the_group() {
    let world = World::new().await;
    world.policy("authors", r#"{"Effect":"Allow","Action":"admin:CreatePolicy"}"#).await;
    world.policy("limit", r#"{"Effect":"Deny","Action":"s3:DeleteObject","Resource":"*"}"#).await;
    world.user("author", &["authors"]).await;
    let (admin, limit) = (&world.api.admin, names(&["limit"]));
    admin.put_group("lab", None, Some(&limit), None).await.unwrap();
    admin.add_group_members("lab", &names(&["author"]), None).await.unwrap();
    for enabled in [true, false] {
        admin.change_group("lab", Some(enabled), None, None).await.unwrap();
        world.api.follow_access().await;
        let author = world.sender("author");
        let author = world.actor(&author);
        let refused = world.api.check_not_own_policy(&author, "limit").await.unwrap_err();
        assert_eq!(refused.code, "AccessDenied", "{enabled}");
        world.api.check_not_own_policy(&author, "readonly").await.unwrap();
    }
}
