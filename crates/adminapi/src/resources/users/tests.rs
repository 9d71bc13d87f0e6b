use super::*;
use crate::resources::simulation::Simulation;
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

/// Returns the results of three reads of the user `tom` by a sender: its record, its keys, and a
/// simulation of its rights.
async fn reads(world: &World, sender: &identity::Authenticated) -> [bool; 3] {
    let (api, actor) = (&world.api, &world.actor(sender));
    let asked =
        Simulation { user: "tom".to_owned(), action: "s3:GetObject".to_owned(), resource: None };
    [
        api.user(actor, "tom").await.is_ok(),
        api.keys(actor, "tom", &PageQuery::default()).await.is_ok(),
        api.simulate(actor, &asked).await.is_ok(),
    ]
}

#[tokio::test]
async fn token_reads_of_its_user_what_its_actions_cover() {
    let world = World::new().await;
    let own = r#"{"Effect":"Allow","Action":["admin:ManageTokens","admin:ListJobs"]}"#;
    world.policy("own", own).await;
    world.user("tom", &["own"]).await;
    world.user("anna", &[]).await;
    for (actions, expected) in [
        (&["admin:ListJobs"][..], [false; 3]),
        (&["admin:GetUser"], [true, false, false]),
        (&["admin:ListServiceAccounts"], [false, true, false]),
        (&["admin:GetUser", "admin:GetPolicy"], [true, false, true]),
        (&["admin:*"], [true; 3]),
    ] {
        let token = world.token("tom", actions).await;
        assert_eq!(reads(&world, &token).await, expected, "{actions:?}");
    }
    assert_eq!(reads(&world, &world.sender("tom")).await, [true; 3], "without an Allow");
    assert_eq!(reads(&world, &world.sender("anna")).await, [false; 3], "another user");
    let deny = r#"{"Effect":"Deny","Action":["admin:GetUser","admin:ListServiceAccounts"]}"#;
    world.policy("deny", deny).await;
    let policies = crate::world::names(&["own", "deny"]);
    world.api.admin.set_user_policies("tom", &policies, None).await.unwrap();
    world.api.follow_access().await;
    assert_eq!(reads(&world, &world.sender("tom")).await, [false; 3], "with a Deny");
}
