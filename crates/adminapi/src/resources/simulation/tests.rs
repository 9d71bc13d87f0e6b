use http::Method;

use super::*;
use crate::S3Call;
use crate::world::{World, document};

/// Checks that a simulation of `s3:GetObject` says what a GET of the user says.
async fn check(world: &World, user: &str, resource: &str, expected: bool) {
    let root = world.sender("root");
    let asked = Simulation {
        user: user.to_owned(),
        action: "s3:GetObject".to_owned(),
        resource: Some(resource.to_owned()),
    };
    let simulated = world.api.simulate(&world.actor(&root), &asked).await.unwrap();
    let sender = world.sender(user);
    let actor = world.actor(&sender);
    let (bucket, key) = resource.split_once('/').unwrap();
    let get = S3Call { key: Some(key), ..S3Call::on_bucket(Method::GET, bucket, None) };
    let got = world.api.s3(&actor, &get, bytes::Bytes::new()).await;
    assert_eq!(got.is_ok(), expected, "the GET of {user}");
    assert_eq!(simulated.allowed, expected, "{user}: {}", simulated.reason);
}

#[tokio::test]
async fn simulation_sees_the_tags_of_the_object() {
    let world = World::new().await;
    world.user("anna", &["readonly"]).await;
    world.user("bert", &[]).await;
    world.put("box", None, None, "").await;
    for (key, tag) in [("secret", "secret=yes"), ("public", "public=yes"), ("plain", "")] {
        world.put_with("box", key, &[("x-amz-tagging", tag)]).await;
    }
    let statement = |effect: &str, tag: &str| {
        format!(
            r#"{{"Effect":"{effect}","Principal":"*","Action":"s3:GetObject",
                "Resource":"arn:aws:s3:::box/*","Condition":
                {{"StringEquals":{{"s3:ExistingObjectTag/{tag}":"yes"}}}}}}"#
        )
    };
    let both = [statement("Deny", "secret"), statement("Allow", "public")].join(",");
    let access = "<PublicAccessBlockConfiguration/>";
    world.put("box", None, Some("publicAccessBlock"), access).await;
    world.put("box", None, Some("policy"), &document(&both)).await;
    for (user, key, expected) in [
        ("anna", "box/secret", false),
        ("anna", "box/plain", true),
        ("bert", "box/public", true),
        ("bert", "box/plain", false),
    ] {
        check(&world, user, key, expected).await;
    }
}

#[tokio::test]
async fn simulation_sees_the_access_control_list_of_the_object() {
    let world = World::new().await;
    world.user("bert", &[]).await;
    world.put("box", None, None, "").await;
    let rules = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>\
                 </OwnershipControls>";
    world.put("box", None, Some("ownershipControls"), rules).await;
    let access = "<PublicAccessBlockConfiguration/>";
    world.put("box", None, Some("publicAccessBlock"), access).await;
    world.put_with("box", "shared", &[("x-amz-acl", "authenticated-read")]).await;
    world.put_with("box", "own", &[]).await;
    check(&world, "bert", "box/shared", true).await;
    check(&world, "bert", "box/own", false).await;
}
