//! Further keys and tokens.

use std::time::Duration;

use admin::{AdminError, Etag, KeyChange, NewKey, NewToken};
use record::{LastUse, Timestamp, UserKind, key};
use store::{MemoryStore, Plan, Write};

use crate::{NOW, Open, add, names, over, record, with_volume};

#[tokio::test]
async fn further_key_has_the_owner_of_its_parent() {
    let store = with_volume(MemoryStore::new()).await;
    let admin = over(store.clone());
    add(&admin, "anna", &["readonly"]).await;
    let new = NewKey { description: "laptop", expires: Some(Timestamp(9)), ..NewKey::default() };
    let issued = admin.add_key("anna", &new, &Open).await.unwrap();
    assert!(!format!("{issued:?}").contains(&issued.secret));
    let name = &issued.key.access_key;
    assert!(name.starts_with("AK") && name.len() == 20, "{name}");
    let kept = record(&*store, name).await.unwrap();
    assert_eq!((kept.uid, kept.gid, kept.umask, kept.made), (1, 2, 0o022, NOW));
    assert!(kept.sealed_secret.starts_with(format!("{name} {} ", issued.secret).as_bytes()));
    assert_eq!(admin.keys("anna").await.unwrap(), std::slice::from_ref(&issued.key));
    assert_eq!(admin.users().await.unwrap().len(), 1, "a further key is no user");
    assert_eq!(admin.key(name).await.unwrap().parent.as_deref(), Some("anna"));
    let given = NewKey { access_key: Some("anna-2"), secret: Some("12345678"), ..new };
    assert!(!format!("{given:?}").contains("12345678"));
    assert_eq!(admin.add_key("anna", &given, &Open).await.unwrap().secret, "12345678");
    let again = admin.add_key("anna", &given, &Open).await;
    assert!(matches!(again, Err(AdminError::UserExists)), "{again:?}");
    for (parent, new) in [("anna", NewKey { secret: Some("short"), ..given }), ("bert", given)] {
        let refused = admin.add_key(parent, &new, &Open).await;
        assert!(matches!(refused, Err(AdminError::Name(_) | AdminError::NoSuchUser)));
    }
    let below = admin.add_key("anna-2", &NewKey::default(), &Open).await;
    assert!(matches!(below, Err(AdminError::NotUser(Some(parent))) if parent == "anna"));
    let line = NewKey { description: "two\nlines", ..NewKey::default() };
    assert!(matches!(admin.add_key("anna", &line, &Open).await, Err(AdminError::Name(_))));
    admin.remove_key("anna-2", None).await.unwrap();
    assert!(matches!(admin.remove_key("anna", None).await, Err(AdminError::IsUser)));
    admin.remove_user("anna", None).await.unwrap();
    assert!(record(&*store, name).await.is_none(), "its keys are removed with a user");
}

#[tokio::test]
async fn rotation_keeps_the_old_key_until_its_expiry() {
    let admin = over(with_volume(MemoryStore::new()).await);
    add(&admin, "anna", &[]).await;
    let week = Duration::from_hours(7 * 24);
    let first = admin.rotate_key("anna", week, &Open).await.unwrap().key;
    assert_eq!((first.parent.as_deref(), first.expires), (Some("anna"), None));
    let old = admin.user("anna").await.unwrap();
    let expires = Timestamp(NOW.0 + 7 * 86_400_000_000_000);
    assert_eq!((old.expires, old.enabled), (Some(expires), true));
    let note = KeyChange { description: Some("nightly".to_owned()), ..KeyChange::default() };
    admin.change_key(&first.access_key, &note, None).await.unwrap();
    let second = admin.rotate_key(&first.access_key, Duration::ZERO, &Open).await.unwrap().key;
    assert_eq!((second.parent.as_deref(), &*second.description), (Some("anna"), "nightly"));
    assert_eq!(admin.key(&first.access_key).await.unwrap().expires, Some(NOW));
    assert_eq!(admin.keys("anna").await.unwrap().len(), 2);
    let absent = admin.rotate_key("bert", week, &Open).await;
    assert!(matches!(absent, Err(AdminError::NoSuchUser)), "{absent:?}");
}

#[tokio::test]
async fn secret_is_replaced_and_not_by_an_operator_who_saw_another_version() {
    let store = with_volume(MemoryStore::new()).await;
    let admin = over(store.clone());
    add(&admin, "anna", &[]).await;
    let seen = admin.user("anna").await.unwrap().etag;
    let before = record(&*store, "anna").await.unwrap().sealed_secret;
    admin.set_secret("anna", "another-secret", &Open, Some(&seen)).await.unwrap();
    let after = record(&*store, "anna").await.unwrap().sealed_secret;
    assert_ne!(before, after);
    let stale = admin.set_secret("anna", "third-secret", &Open, Some(&seen)).await;
    assert!(matches!(stale, Err(AdminError::Changed)), "{stale:?}");
    let short = admin.set_secret("anna", "short", &Open, None).await;
    assert!(matches!(short, Err(AdminError::Name(_))), "{short:?}");
    assert_eq!(record(&*store, "anna").await.unwrap().sealed_secret, after);
}

#[tokio::test]
async fn key_is_changed_and_not_by_an_operator_who_saw_another_version() {
    let admin = over(with_volume(MemoryStore::new()).await);
    add(&admin, "anna", &[]).await;
    let issued = admin.add_key("anna", &NewKey::default(), &Open).await.unwrap();
    let (name, seen) = (&*issued.key.access_key, issued.key.etag);
    let off = KeyChange { enabled: Some(false), ..KeyChange::default() };
    admin.change_key(name, &off, Some(&seen)).await.unwrap();
    let stale = admin.change_key(name, &off, Some(&seen)).await;
    assert!(matches!(stale, Err(AdminError::Changed)), "{stale:?}");
    assert!(matches!(admin.remove_key(name, Some(&seen)).await, Err(AdminError::Changed)));
    let found = admin.key(name).await.unwrap();
    assert!(!found.enabled && found.etag != seen);
    assert_eq!(found.etag.to_string().parse::<Etag>(), Ok(found.etag));
    assert!(found.etag.to_string().to_uppercase().parse::<Etag>().is_err());
    admin.remove_key(name, Some(&found.etag)).await.unwrap();
    let own = admin.change_key("anna", &off, None).await;
    assert!(matches!(own, Err(AdminError::IsUser)), "{own:?}");
    admin.set_user_enabled("anna", false, None).await.unwrap();
    let anna = admin.user("anna").await.unwrap();
    assert!(!anna.enabled);
    let owner = (Some(3), None, None);
    admin.set_user_owner("anna", owner, Some(&anna.etag)).await.unwrap();
    let stale = admin.set_user_policies("anna", &[], Some(&anna.etag)).await;
    assert!(matches!(stale, Err(AdminError::Changed)), "{stale:?}");
}

#[tokio::test]
async fn tokens_have_actions_and_no_access_key_of_s3() {
    let store = with_volume(MemoryStore::new()).await;
    let admin = over(store.clone());
    add(&admin, "anna", &[]).await;
    let actions = &names(&["admin:List*", "admin:ServerInfo"]);
    let new = NewToken { parent: Some("anna"), actions, ..NewToken::default() };
    let issued = admin.add_token(&new, &Open).await.unwrap();
    let name = &issued.token.access_key;
    assert!(issued.text.starts_with(&format!("ashlar_{name}_")) && issued.text.len() > 60);
    assert!(!format!("{issued:?}").contains(&issued.text));
    let kept = record(&*store, name).await.unwrap();
    assert_eq!(kept.kind, UserKind::Token { actions: actions.clone() });
    let own = admin.add_token(&NewToken { parent: None, ..new }, &Open).await.unwrap();
    assert_eq!(admin.tokens().await.unwrap().len(), 2);
    assert!(admin.keys("anna").await.unwrap().is_empty(), "a token is no key");
    assert_eq!(admin.user_overview("anna").await.unwrap().keys.len(), 1);
    for wrong in ["s3:GetObject", "admin:", "admin:List Users", "*"] {
        let actions = &names(&[wrong]);
        let refused = admin.add_token(&NewToken { actions, ..new }, &Open).await;
        assert!(matches!(refused, Err(AdminError::Name(_))), "{wrong}");
    }
    let none = admin.add_token(&NewToken { actions: &[], ..new }, &Open).await;
    assert!(matches!(none, Err(AdminError::Name(_))), "{none:?}");
    let rotated = admin.rotate_key(name, Duration::ZERO, &Open).await;
    assert!(matches!(rotated, Err(AdminError::NoSuchUser)), "{rotated:?}");
    assert!(matches!(admin.remove_token("anna", None).await, Err(AdminError::NoSuchUser)));
    admin.remove_token(&own.token.access_key, None).await.unwrap();
    admin.remove_user("anna", None).await.unwrap();
    assert!(admin.tokens().await.unwrap().is_empty());
}

#[tokio::test]
async fn last_use_is_shown_with_each_key_and_its_user() {
    let store = with_volume(MemoryStore::new()).await;
    let admin = over(store.clone());
    add(&admin, "anna", &[]).await;
    let new = NewKey { access_key: Some("anna-2"), ..NewKey::default() };
    admin.add_key("anna", &new, &Open).await.unwrap();
    let at = key::last_use("anna-2");
    let writes = vec![Write::Put(at.clone(), LastUse { at: Timestamp(5) }.encode(&at))];
    store.commit(&[Plan { guards: Vec::new(), writes }]).await.unwrap();
    assert_eq!(admin.key("anna-2").await.unwrap().last_used, Some(Timestamp(5)));
    let overview = admin.user_overview("anna").await.unwrap();
    assert_eq!((overview.user.last_used, overview.last_used), (None, Some(Timestamp(5))));
    admin.remove_key("anna-2", None).await.unwrap();
    assert!(faulty::get(&*store, &at).await.is_none(), "it is removed with its key");
}
