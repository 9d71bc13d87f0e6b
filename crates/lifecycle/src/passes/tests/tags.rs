//! Tags that change between the listing of a pass and its removal.

use record::VersionStamp;
use volume::{ObjectChange, VersionRef};

use super::*;

/// A rule for objects with the tag `class: old`.
const OLD_GOES: &str = "<Rule><ID>old</ID><Status>Enabled</Status>\
    <Filter><Tag><Key>class</Key><Value>old</Value></Tag></Filter>\
    <Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration>\
    <NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>\
    </Rule>";

impl World {
    async fn tag(&self, key: &str, version: Option<VersionRef>, class: &str) {
        let tags = [("class".to_owned(), class.to_owned())];
        let change = ObjectChange::Tags(&tags);
        let key = key.as_bytes();
        self.volume.change_object("bkt", key, version, None, change).await.unwrap();
    }

    /// Returns the ids of the versions of a key, the newest first.
    async fn ids(&self, key: &str) -> Vec<Option<VersionStamp>> {
        let prefix = key.as_bytes().to_vec();
        let query = volume::VersionsQuery { prefix, delimiter: None, after: None, limit: 1_000 };
        let page = self.volume.list_versions("bkt".into(), &query).await.unwrap();
        let id = |entry| match entry {
            volume::VersionsEntry::Version { version: VersionRef::Id(id), .. } => Some(id),
            _ => None,
        };
        page.entries.into_iter().map(id).collect()
    }
}

/// Finds expired objects as a pass does, changes tags, and then removes the objects.
async fn removed_after_a_change_of_tags(versioning: Versioning) -> (World, Vec<(String, bool)>) {
    let world = World::new(versioning, OLD_GOES).await;
    for key in ["kept", "old"] {
        world.put(key).await;
        if versioning == Versioning::Enabled {
            world.tag(key, None, "old").await;
            world.put(key).await;
        } else {
            world.tag(key, None, "old").await;
        }
    }
    let day = Duration::from_millis(1);
    tokio::time::sleep(10 * day).await;
    let follower = world.follower(day);
    let rules =
        follower.rules.get(&world.volume, &BucketName::parse("bkt").unwrap()).await.unwrap();
    let page = follower.page(b"bkt".into(), &rules);
    let (expired, more) = page.find_due(&mut Walk::after_key(None)).await.unwrap();
    assert!(!more);
    let noncurrent = world.ids("kept").await.pop().flatten().map(VersionRef::Id);
    world.tag("kept", noncurrent, "new").await;
    page.remove(expired).await.unwrap();
    let left = world.remaining().await;
    (world, left)
}

#[tokio::test]
async fn an_object_that_gets_other_tags_before_it_is_removed_stays() {
    let (_world, left) = removed_after_a_change_of_tags(Versioning::Off).await;
    assert_eq!(left, [("kept".to_owned(), true)]);
}

#[tokio::test]
async fn a_noncurrent_version_that_gets_other_tags_before_it_is_removed_stays() {
    let (_world, left) = removed_after_a_change_of_tags(Versioning::Enabled).await;
    let of = |key: &str| left.iter().filter(|(of, _)| of == key).count();
    assert_eq!((of("kept"), of("old")), (2, 1));
}
