//! A rival gateway replaces or changes the object between the check and the rename.

use record::Versioning;

use crate::operations::racing::{Meanwhile, World};

#[tokio::test(start_paused = true)]
async fn a_rename_never_reaches_an_object_that_its_sender_may_not_rename() {
    for meanwhile in [Meanwhile::Replaces("b"), Meanwhile::Retags("b")] {
        let world = World::new(meanwhile, Versioning::Off).await;
        let header = ("x-amz-rename-source", "k");
        let answer = world.send_with(("PUT", "/bkt/to?renameObject", ""), header).await;
        assert_eq!(world.changes(), 1, "the object changed meanwhile");
        assert_eq!((answer.0, answer.1), (403, Some("AccessDenied")), "{meanwhile:?}");
        assert!(world.find().await.is_some(), "{meanwhile:?}");
    }
}
