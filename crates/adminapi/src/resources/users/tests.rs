use super::*;
use crate::world::World;

/// The policy of an operator who may create users, and not disable them.
const CREATES: &str = r#"{"Effect":"Allow","Action":"admin:CreateUser"}"#;

#[tokio::test]
async fn user_that_is_created_disabled_is_never_enabled() {
    let world = World::new().await;
    world.policy("creators", CREATES).await;
    world.user("officer", &["creators"]).await;
    let officer = world.sender("officer");
    let officer = world.actor(&officer);
    let before = world.store.commits.load(std::sync::atomic::Ordering::SeqCst);
    let new = NewUserJson::default();
    world.api.put_user_in_state(&officer, ("ghost", false), &new).await.unwrap();
    let commits = world.store.commits.load(std::sync::atomic::Ordering::SeqCst) - before;
    assert_eq!(commits, 1, "no moment at which it is enabled");
    assert!(!world.api.admin.user("ghost").await.unwrap().enabled);
    let now = rules::time(world.api.volume.now());
    assert!(world.api.access.lookup("ghost", now).is_none());
    world.api.put_user(&officer, "anna", &new).await.unwrap();
    assert!(world.api.admin.user("anna").await.unwrap().enabled);
}
