//! Tests: a rival gateway replaces the bucket between the check of permissions and the commit of a
//! change of its settings. The permissions of the sender were those at the old bucket.

use record::{BucketConfigKind, Versioning};

use crate::operations::racing::{Meanwhile, World};

const RULES: &str = "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin>\
                     <AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>";
const TAGS: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
const VERSIONS: &str =
    "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";

#[tokio::test(start_paused = true)]
async fn a_change_never_reaches_a_new_bucket_of_the_name() {
    for sent in [
        ("PUT", "/bkt?cors", RULES),
        ("PUT", "/bkt?tagging", TAGS),
        ("DELETE", "/bkt?tagging", ""),
        ("PUT", "/bkt?versioning", VERSIONS),
        ("DELETE", "/bkt?encryption", ""),
        ("DELETE", "/bkt", ""),
    ] {
        let world = World::new(Meanwhile::ReplacesBucket, Versioning::Off).await;
        if sent == ("DELETE", "/bkt", "") {
            // Otherwise the request ends before its commit.
            world.empty().await;
        }
        let old = world.volume().bucket("bkt").await.unwrap().ino;
        let (status, code, body) = world.send(sent).await;
        assert_eq!(world.changes(), 1, "{sent:?}: {status} {body}");
        assert_eq!((status, code), (404, Some("NoSuchBucket")), "{sent:?}: {body}");
        let new = world.volume().bucket("bkt").await.expect("the new bucket remains");
        assert_ne!(new.ino, old);
        assert_eq!(new.versioning, Versioning::Off, "{sent:?}");
        assert_eq!(new.bucket, world.new_bucket("other").await.bucket, "{sent:?}");
        for kind in [BucketConfigKind::Cors, BucketConfigKind::Tags, BucketConfigKind::Encryption] {
            assert_eq!(world.volume().bucket_config("bkt", kind).await.unwrap(), None, "{sent:?}");
        }
    }
}
