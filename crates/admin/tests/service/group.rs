//! Groups of users.

use admin::{AdminError, NewKey};
use store::MemoryStore;

use crate::{DOCUMENT, Open, add, names, over, with_volume};

#[tokio::test]
async fn members_of_a_group_have_its_policies_while_it_is_enabled() {
    let admin = over(with_volume(MemoryStore::new()).await);
    add(&admin, "anna", &["readonly"]).await;
    admin.put_policy("photos", DOCUMENT, None).await.unwrap();
    let photos = names(&["photos"]);
    assert!(!admin.put_group("lab", None, Some(&photos), None).await.unwrap());
    admin.add_group_members("lab", &names(&["anna"]), None).await.unwrap();
    let lab = admin.group("lab").await.unwrap();
    assert_eq!((&lab.members, &lab.policies, lab.enabled), (&names(&["anna"]), &photos, true));
    let overview = admin.user_overview("anna").await.unwrap();
    assert_eq!(overview.groups, std::slice::from_ref(&lab));
    assert_eq!(overview.effective_policies, ["photos", "readonly"]);
    admin.change_group("lab", Some(false), None, Some(&lab.etag)).await.unwrap();
    assert_eq!(admin.user_overview("anna").await.unwrap().effective_policies, ["readonly"]);
    let stale = admin.set_group_policies("lab", &[], Some(&lab.etag)).await;
    assert!(matches!(stale, Err(AdminError::Changed)), "{stale:?}");
    match admin.remove_policy("photos", None).await {
        Err(AdminError::PolicyOfGroups(groups)) => assert_eq!(groups, ["lab"]),
        other => panic!("{other:?}"),
    }
    assert!(admin.put_group("lab", None, Some(&[]), None).await.unwrap());
    admin.remove_policy("photos", None).await.unwrap();
    let missing = admin.set_group_policies("lab", &photos, None).await;
    assert!(matches!(missing, Err(AdminError::NoSuchPolicy(_))), "{missing:?}");
    let lab = admin.group("lab").await.unwrap();
    assert!(!lab.enabled && lab.policies.is_empty(), "{lab:?}");
}

#[tokio::test]
async fn a_group_goes_when_its_last_member_has_left() {
    let admin = over(with_volume(MemoryStore::new()).await);
    for name in ["anna", "bert"] {
        add(&admin, name, &[]).await;
    }
    let new = NewKey { access_key: Some("anna-2"), ..NewKey::default() };
    admin.add_key("anna", &new, &Open).await.unwrap();
    let both = names(&["bert", "anna"]);
    let absent = admin.add_group_members("lab", &both, None).await;
    assert!(matches!(absent, Err(AdminError::NoSuchGroup)), "{absent:?}");
    admin.put_group("lab", None, None, None).await.unwrap();
    for wrong in ["carl", "anna-2", "a/b"] {
        let refused = admin.add_group_members("lab", &names(&["anna", wrong]), None).await;
        assert!(matches!(refused, Err(AdminError::NoSuchMember(name)) if name == wrong));
    }
    assert!(admin.group("lab").await.unwrap().members.is_empty(), "nothing happened");
    admin.add_group_members("lab", &both, None).await.unwrap();
    match admin.remove_group("lab", None).await {
        Err(AdminError::GroupHasMembers(members)) => assert_eq!(members, ["anna", "bert"]),
        other => panic!("{other:?}"),
    }
    admin.remove_group_members("lab", &names(&["anna", "nobody", "a/b"]), None).await.unwrap();
    assert!(admin.user("anna").await.unwrap().groups.is_empty());
    admin.remove_user("bert", None).await.unwrap();
    admin.remove_group("lab", None).await.unwrap();
    assert!(matches!(admin.group("lab").await, Err(AdminError::NoSuchGroup)));
    assert_eq!(admin.groups().await.unwrap(), []);
    let wrong = admin.put_group("a/b", None, None, None).await;
    assert!(matches!(wrong, Err(AdminError::Name(_))), "{wrong:?}");
}
