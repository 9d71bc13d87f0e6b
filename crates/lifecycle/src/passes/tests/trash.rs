//! The time in the trash depends neither on the clock of the client that deleted an item, nor on
//! one process with a fast clock.

use volume::{SessionOptions, SetClock};

use super::*;

const STAYS: u32 = 7;

fn time(day: i64) -> Timestamp {
    let day_nanoseconds = i64::try_from(DAY.as_nanos()).unwrap();
    Timestamp((1_000 + day) * day_nanoseconds + day_nanoseconds / 2)
}

/// Deletes an object on day `lost` of its writer's clock, while the processes' clocks show day 100.
/// Then runs a pass on each day. Returns the first day on which the item is gone.
async fn gone_at(lost: i64, ahead: Option<i64>) -> i64 {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let clock = Arc::new(SetClock::new(time(100)));
    let session = SessionOptions { clock: clock.clone(), ..SessionOptions::default() };
    let options = VolumeOptions { session, ..VolumeOptions::default() };
    let volume = Volume::open(options, store, blocks).await.unwrap();
    volume.create_bucket("bkt", &NewBucket::owned_by(&owner())).await.unwrap();
    let days = BucketConfig::of_trash_days(STAYS);
    volume.set_bucket_config("bkt", BucketConfigKind::Trash, Some(&days)).await.unwrap();
    let world = World { volume };
    world.put("k").await;
    clock.set(time(lost));
    world.volume.delete("bkt", vec![(b"k".to_vec(), None)]).await.unwrap();
    if let Some(ahead) = ahead {
        clock.set(time(ahead));
        world.follower(DAY).follow_now().await.unwrap();
    }
    let follower = world.follower(DAY);
    for day in 100..140 {
        clock.set(time(day));
        follower.follow_now().await.unwrap();
        if world.volume.trash("bkt".into(), b"", None).await.unwrap().is_empty() {
            assert_eq!(follower.counters().trash, 1);
            return day;
        }
    }
    panic!("the item stays for ever");
}

#[tokio::test]
async fn trash_days_do_not_depend_on_the_clock_of_the_writer() {
    // An item of a writer with the right clock is removed by the pass after its 7 days.
    assert_eq!(gone_at(100, None).await, 108);
    // With another clock it is removed at most one day early or late, the time between two passes.
    assert_eq!(gone_at(60, None).await, 107);
    assert_eq!(gone_at(500, None).await, 108);
    assert_eq!(gone_at(-900, None).await, 107);
}

#[tokio::test]
async fn a_pass_with_a_slow_clock_does_not_end_trash_days_early() {
    // A gateway whose clock shows day 20 marks the item as seen on that day.
    assert_eq!(gone_at(100, Some(20)).await, 108);
}

#[tokio::test]
async fn a_pass_with_a_fast_clock_does_not_change_trash_days() {
    assert_eq!(gone_at(100, Some(500)).await, 108);
}
