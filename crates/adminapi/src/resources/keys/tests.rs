use super::*;
use crate::world::World;

#[tokio::test]
async fn deny_of_new_keys_prevents_rotations() {
    let world = World::new().await;
    let denied = r#"{"Effect":"Deny","Action":"admin:CreateServiceAccount"}"#;
    world.policy("no-keys", denied).await;
    world.policy("updates", r#"{"Effect":"Allow","Action":"admin:UpdateServiceAccount"}"#).await;
    for (name, policies) in
        [("anna", &[][..]), ("bert", &["no-keys"]), ("carl", &["no-keys", "updates"])]
    {
        world.user(name, policies).await;
    }
    let rotation = Rotation { old_expires_seconds: Some(9) };
    let rotate = async |sender: &str, of: &str| {
        let sender = world.sender(sender);
        let rotated = world.api.rotate_key(&world.actor(&sender), (of, of), rotation).await;
        rotated.map(drop).map_err(|error| error.code)
    };
    assert_eq!(rotate("bert", "bert").await, Err("AccessDenied".into()));
    assert_eq!(rotate("carl", "anna").await, Err("AccessDenied".into()));
    assert_eq!(rotate("anna", "anna").await, Ok(()));
    assert!(world.api.admin.user("bert").await.unwrap().expires.is_none());
}

#[tokio::test]
async fn key_that_an_operator_disabled_stays_disabled_after_a_rotation() {
    let world = World::new().await;
    world.user("anna", &[]).await;
    let anna = world.sender("anna");
    let anna = world.actor(&anna);
    let new = NewKeyJson::default();
    let made = world.api.post_key(&anna, "anna", &new).await.unwrap().access_key;
    let disabled = KeyChange { enabled: Some(false), ..KeyChange::default() };
    world.api.admin.change_key(&made, &disabled, None).await.unwrap();
    let of = ("anna", made.as_str());
    let rotated = world.api.rotate_key(&anna, of, Rotation::default()).await.unwrap();
    assert!(!world.api.admin.key(&rotated.access_key).await.unwrap().enabled);
    let own = world.api.rotate_key(&anna, ("anna", "anna"), Rotation::default()).await.unwrap();
    assert!(world.api.admin.key(&own.access_key).await.unwrap().enabled);
}
