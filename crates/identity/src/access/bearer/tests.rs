use record::{AccountId, PolicyRecord, User, UserKind};
use volume::AccessRecords;

use super::super::{MasterKey, Secret};
use super::*;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const SECRET: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCD";

fn token(name: &str, parent: Option<&str>, actions: &[&str]) -> (String, User) {
    let master = MasterKey::new([7; MasterKey::BYTES]);
    let sealed = master.seal(name, &Secret::new(SECRET), [1; MasterKey::NONCE_BYTES]);
    let actions = actions.iter().map(|&action| action.to_owned()).collect();
    let user = User {
        parent: parent.map(str::to_owned),
        kind: UserKind::Token { actions },
        expires: Some(record::Timestamp(1_000_000_000)),
        ..User::new(AccountId::MAIN, sealed)
    };
    (name.to_owned(), user)
}

fn user(enabled: bool) -> (String, User) {
    let master = MasterKey::new([7; MasterKey::BYTES]);
    let sealed = master.seal("anna", &Secret::new("hers"), [1; MasterKey::NONCE_BYTES]);
    let policies = vec!["lists".to_owned()];
    ("anna".to_owned(), User { enabled, policies, ..User::new(AccountId::MAIN, sealed) })
}

fn access(users: Vec<(String, User)>) -> Access {
    let root = Identity::root("root", Secret::new("rootsecret"));
    let access = Access::new(root, MasterKey::new([7; MasterKey::BYTES]));
    let lists = r#"{"Statement":{"Effect":"Allow","Action":"admin:List*","Resource":"*"}}"#;
    let policies = vec![("lists".to_owned(), PolicyRecord(lists.to_owned()))];
    let records = AccessRecords { users, policies, ..AccessRecords::default() };
    assert_eq!(access.replace(records), []);
    access
}

#[test]
fn a_token_is_accepted_until_it_expires_and_never_by_s3() {
    let access = access(vec![user(true), token("AK_1", Some("anna"), &["admin:*"])]);
    let text = format!("ashlar_AK_1_{SECRET}");
    let bearer = access.token(&text, NOW).expect("a token");
    assert_eq!((&*bearer.identity.access_key, &*bearer.identity.signing_key), ("anna", "AK_1"));
    assert!(access.lookup("AK_1", NOW).is_none(), "S3 does not know it");
    let identified = access.identify(Some("AK_1"), None, NOW).expect("no fault");
    assert!(identified.is_none());
    let late = NOW + time::Duration::SECOND;
    assert_eq!(access.token(&text, late).err(), Some(BearerError::Expired));
    let longer = format!("{text}x");
    let wrong = ["", "ashlar_", "ashlar_AK_1_", "AK_1", &text[1..], &longer, "ashlar_anna_hers"];
    for wrong in wrong {
        assert_eq!(access.token(wrong, NOW).err(), Some(BearerError::Invalid), "{wrong}");
    }
    let changed = text.replace("ABCD", "ABCE");
    assert_eq!(access.token(&changed, NOW).err(), Some(BearerError::Invalid));
}

#[test]
fn a_token_of_a_disabled_or_removed_user_is_refused() {
    let text = format!("ashlar_AK_1_{SECRET}");
    let of_anna = token("AK_1", Some("anna"), &["admin:*"]);
    let access = access(vec![user(false), of_anna.clone()]);
    assert_eq!(access.token(&text, NOW).err(), Some(BearerError::Invalid));
    let users = vec![of_anna];
    let trouble = access.replace(AccessRecords { users, ..AccessRecords::default() });
    assert_eq!(trouble.len(), 1, "a token without its user is reported");
    assert_eq!(access.token(&text, NOW).err(), Some(BearerError::Invalid));
}

#[test]
fn a_token_permits_its_actions_alone() {
    let access = access(vec![user(true), token("AK", None, &["admin:List*Users", "admin:Get*"])]);
    let bearer = access.token(&format!("ashlar_AK_{SECRET}"), NOW).expect("a token");
    assert!(bearer.identity.root && bearer.identity.access_key == "root");
    let policy = bearer.identity.session.as_ref().and_then(|session| session.policy.as_ref());
    assert!(policy.is_some(), "its actions limit the identity itself");
    for (action, permitted) in [
        ("admin:ListUsers", true),
        ("ADMIN:listusers", true),
        ("admin:ListAnyUsersUsers", true),
        ("admin:ListUsersX", false),
        ("admin:Get", true),
        ("admin:ServerInfo", false),
        ("s3:GetObject", false),
        ("", false),
    ] {
        assert_eq!(bearer.permits(action), permitted, "{action}");
    }
}
