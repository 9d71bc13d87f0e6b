//! A rival gateway replaces or changes the object between the check and the change.

use record::{ObjectHeaders, RetainUntil, RetentionMode, Timestamp, Versioning};

use crate::operations::racing::{Meanwhile, World, tags};

type Sent = (&'static str, &'static str, &'static str);

const PUT_TAGS: Sent = (
    "PUT",
    "/bkt/k?tagging",
    "<Tagging><TagSet><Tag><Key>team</Key><Value>new</Value></Tag></TagSet></Tagging>",
);
const DELETE_TAGS: Sent = ("DELETE", "/bkt/k?tagging", "");
const HOLD: Sent = ("PUT", "/bkt/k?legal-hold", "<LegalHold><Status>ON</Status></LegalHold>");
const RETAIN: Sent = (
    "PUT",
    "/bkt/k?retention",
    "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2100-01-01T00:00:00Z</RetainUntilDate>\
     </Retention>",
);

#[tokio::test(start_paused = true)]
async fn a_change_never_reaches_an_object_that_its_sender_may_not_change() {
    for sent in [PUT_TAGS, DELETE_TAGS, HOLD, RETAIN] {
        for meanwhile in [Meanwhile::Replaces("b"), Meanwhile::Retags("b")] {
            let world = World::new(meanwhile, Versioning::Enabled).await;
            let (status, code, _) = world.send(sent).await;
            assert_eq!(world.changes(), 1, "the object changed meanwhile: {sent:?}");
            assert_eq!((status, code), (403, Some("AccessDenied")), "{sent:?}, {meanwhile:?}");
            let untouched = ObjectHeaders { tags: tags("b"), ..ObjectHeaders::default() };
            assert_eq!(world.kept().await, untouched, "{sent:?}, {meanwhile:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_reaches_the_new_object_if_its_sender_may_change_that_too() {
    let lock = |world: ObjectHeaders| world.lock;
    for sent in [PUT_TAGS, DELETE_TAGS, HOLD, RETAIN] {
        let world = World::new(Meanwhile::Replaces("a"), Versioning::Enabled).await;
        let (status, code, _) = world.send(sent).await;
        assert_eq!(world.changes(), 1, "the object changed meanwhile: {sent:?}");
        assert!(matches!(status, 200 | 204), "{sent:?}: {status}, {code:?}");
        let kept = world.kept().await;
        match sent {
            PUT_TAGS => assert_eq!(kept.tags, tags("new")),
            DELETE_TAGS => assert_eq!(kept.tags, []),
            HOLD => assert_eq!(lock(kept).legal_hold, Some(true)),
            _ => {
                let until = Timestamp(4_102_444_800_000_000_000);
                let wanted = RetainUntil { mode: RetentionMode::Governance, until };
                assert_eq!(lock(kept).retention, Some(wanted));
            }
        }
    }
}
