use record::Versioning;
use s3::conditions::ETagList;

use super::*;
use crate::operations::racing::{Meanwhile, World, tags};

#[test]
fn only_a_write_with_a_condition_conflicts_with_others() {
    let contended = || VolumeError::Fs(FsError::Contended);
    assert_eq!(refusal(contended(), &WritePrecondition::None).code, Code::SlowDown);
    assert_eq!(translate::fault(contended()).code, Code::SlowDown);
    for condition in [WritePrecondition::IfNoneMatchStar, WritePrecondition::IfMatch(ETagList::Any)]
    {
        let fault = refusal(contended(), &condition);
        assert_eq!(fault.code, Code::ConditionalRequestConflict, "{condition:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_write_replaces_no_object_that_its_sender_may_not_replace() {
    for meanwhile in [Meanwhile::Replaces("b"), Meanwhile::Retags("b")] {
        let world = World::new(meanwhile, Versioning::Off).await;
        let (status, code, _) = world.send_slowly(("PUT", "/bkt/k", "content")).await;
        assert_eq!(world.changes(), 1, "the object changed meanwhile");
        assert_eq!((status, code), (403, Some("AccessDenied")), "{meanwhile:?}");
        assert_eq!(world.kept().await.tags, tags("b"), "{meanwhile:?}");
    }
}
