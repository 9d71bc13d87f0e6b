use tokio::time::Instant;

use super::*;

const PATIENCE: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn request_beyond_free_memory_fails_at_the_deadline() {
    let budget = ByteBudget::new(10 * 1024);
    let held = budget.acquire(8 * 1024, PATIENCE).await.unwrap();
    let begun = Instant::now();
    assert_eq!(budget.acquire(3 * 1024, PATIENCE).await.unwrap_err(), Overloaded);
    assert_eq!(begun.elapsed(), PATIENCE);
    drop(held);
    let _permit = budget.acquire(3 * 1024, PATIENCE).await.unwrap();
    assert_eq!((budget.in_use(), budget.peak()), (3 * 1024, 8 * 1024));
}

#[tokio::test(start_paused = true)]
async fn request_beyond_the_budget_gets_the_whole_budget() {
    let budget = ByteBudget::new(10 * 1024);
    let permit = budget.acquire(u64::MAX, PATIENCE).await.unwrap();
    assert_eq!(permit.bytes(), 10 * 1024);
    assert!(budget.try_acquire(1).is_none());
    drop(permit);
    assert_eq!(budget.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn small_requests_do_not_overtake_a_large_one() {
    let budget = ByteBudget::new(10 * 1024);
    let held = budget.acquire(5 * 1024, PATIENCE).await.unwrap();
    let mut large = Box::pin(budget.acquire(9 * 1024, PATIENCE));
    assert!(futures::poll!(&mut large).is_pending());
    assert!(budget.try_acquire(1024).is_none(), "the free bytes are the large request's");
    drop(held);
    assert_eq!(large.await.unwrap().bytes(), 9 * 1024);
}

#[tokio::test(start_paused = true)]
async fn merged_permits_are_given_back_together() {
    let budget = ByteBudget::new(10 * 1024);
    let mut permit = budget.acquire(1, PATIENCE).await.unwrap();
    permit.merge(budget.acquire(2 * 1024, PATIENCE).await.unwrap());
    assert_eq!((permit.bytes(), budget.in_use()), (3 * 1024, 3 * 1024));
    drop(permit);
    assert_eq!(budget.in_use(), 0);
    assert_eq!(budget.try_acquire(10 * 1024).unwrap().bytes(), 10 * 1024);
}

/// Releases its permit when it is asked for the third time.
#[derive(Debug)]
struct Hoarder(std::sync::Mutex<(u32, Option<Permit>)>);

impl ReleaseMemory for Hoarder {
    fn release_memory(&self) {
        let (asked, held) = &mut *self.0.lock().unwrap();
        *asked += 1;
        if *asked == 3 {
            *held = None;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn holders_are_asked_to_release_while_a_request_waits() {
    let budget = ByteBudget::new(10 * 1024);
    let held = budget.acquire(8 * 1024, PATIENCE).await.unwrap();
    let hoarder = Arc::new(Hoarder(std::sync::Mutex::new((0, Some(held)))));
    let holder: Weak<Hoarder> = Arc::downgrade(&hoarder);
    budget.register_holder(holder);
    let _free = budget.acquire(2 * 1024, PATIENCE).await.unwrap();
    assert_eq!(hoarder.0.lock().unwrap().0, 0, "no holder was asked");
    let another = Arc::new(Hoarder(std::sync::Mutex::new((0, None))));
    let holder: Weak<Hoarder> = Arc::downgrade(&another);
    budget.register_holder(holder);
    let begun = Instant::now();
    let _waited = budget.acquire(3 * 1024, PATIENCE).await.unwrap();
    assert_eq!(begun.elapsed(), 3 * RELEASE_INTERVAL);
    assert_eq!(another.0.lock().unwrap().0, 3, "all are asked");
}

/// A holder with one key that has a quarter of the budget.
fn quarter(key: u64) -> MemoryHolder {
    MemoryHolder::new([Share { key, parts: SHARE_PARTS / 4 }])
}

#[tokio::test(start_paused = true)]
async fn holder_may_take_all_memory_while_no_other_waits() {
    let budget = ByteBudget::new(16 * 1024);
    let all = budget.acquire_for(&quarter(1), 12 * 1024, PATIENCE).await.unwrap();
    let _more = budget.acquire_for(&quarter(1), 4 * 1024, PATIENCE).await.unwrap();
    assert_eq!(all.bytes(), 12 * 1024);
}

#[tokio::test(start_paused = true)]
async fn a_holder_beyond_its_share_waits_behind_others() {
    let budget = ByteBudget::new(16 * 1024);
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(budget.acquire_for(&quarter(1), 4 * 1024, PATIENCE).await.unwrap());
    }
    let (greedy, modest) = (quarter(1), quarter(2));
    let mut first = Box::pin(budget.acquire_for(&greedy, 4 * 1024, PATIENCE));
    assert!(futures::poll!(&mut first).is_pending());
    let mut second = Box::pin(budget.acquire_for(&modest, 4 * 1024, PATIENCE));
    assert!(futures::poll!(&mut second).is_pending());
    held.pop();
    let second = second.await.unwrap();
    assert_eq!(second.bytes(), 4 * 1024);
    assert!(futures::poll!(&mut first).is_pending(), "the first is beyond its share");
    held.pop();
    assert_eq!(first.await.unwrap().bytes(), 4 * 1024, "no other holder waits");
}

#[tokio::test(start_paused = true)]
async fn fixed_share_is_not_exceeded_even_if_memory_is_free() {
    let budget = ByteBudget::with_fixed_shares(16 * 1024);
    let mut held = budget.acquire_for(&quarter(1), 4 * 1024, PATIENCE).await.unwrap();
    assert_eq!(budget.acquire_for(&quarter(1), 1024, PATIENCE).await.unwrap_err(), Overloaded);
    let _other = budget.acquire_for(&quarter(2), 4 * 1024, PATIENCE).await.unwrap();
    held.shrink_to(2 * 1024);
    let _more = budget.acquire_for(&quarter(1), 2 * 1024, PATIENCE).await.unwrap();
    assert_eq!(budget.in_use(), 8 * 1024);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_waits_for_its_fixed_share_does_not_block_others() {
    let budget = ByteBudget::with_fixed_shares(16 * 1024);
    let _held = budget.acquire_for(&quarter(1), 4 * 1024, PATIENCE).await.unwrap();
    let greedy = quarter(1);
    let mut waits = Box::pin(budget.acquire_for(&greedy, 1024, PATIENCE));
    assert!(futures::poll!(&mut waits).is_pending());
    let begun = Instant::now();
    let _other = budget.acquire_for(&quarter(2), 4 * 1024, PATIENCE).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn dropped_request_leaves_the_queue_and_holds_no_memory() {
    let budget = ByteBudget::new(10 * 1024);
    let held = budget.acquire(8 * 1024, PATIENCE).await.unwrap();
    let mut gone = Box::pin(budget.acquire(9 * 1024, PATIENCE));
    assert!(futures::poll!(&mut gone).is_pending());
    let mut small = Box::pin(budget.acquire(2 * 1024, PATIENCE));
    assert!(futures::poll!(&mut small).is_pending(), "it waits for its turn");
    drop(gone);
    let small = small.await.unwrap();
    drop((held, small));
    assert_eq!(budget.try_acquire(10 * 1024).unwrap().bytes(), 10 * 1024);
}

#[tokio::test(start_paused = true)]
async fn granted_request_that_is_dropped_gives_its_memory_back() {
    let budget = ByteBudget::new(10 * 1024);
    let held = budget.acquire(8 * 1024, PATIENCE).await.unwrap();
    let mut gone = Box::pin(budget.acquire(9 * 1024, PATIENCE));
    assert!(futures::poll!(&mut gone).is_pending());
    drop(held);
    drop(gone);
    assert_eq!(budget.in_use(), 0);
    assert_eq!(budget.try_acquire(10 * 1024).unwrap().bytes(), 10 * 1024);
}

#[tokio::test(start_paused = true)]
async fn merged_permits_of_two_holders_count_for_the_first_holder() {
    let budget = ByteBudget::with_fixed_shares(16 * 1024);
    let mut first = budget.acquire_for(&quarter(1), 1024, PATIENCE).await.unwrap();
    first.merge(budget.acquire_for(&quarter(2), 3 * 1024, PATIENCE).await.unwrap());
    assert!(budget.acquire_for(&quarter(1), 1024, PATIENCE).await.is_err());
    let _free = budget.acquire_for(&quarter(2), 4 * 1024, PATIENCE).await.unwrap();
    drop(first);
    assert_eq!(budget.in_use(), 4 * 1024);
}
