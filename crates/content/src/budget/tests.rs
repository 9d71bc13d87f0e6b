use tokio::time::Instant;

use super::*;

const PATIENCE: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn more_than_is_free_waits_for_the_deadline() {
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
async fn a_request_beyond_the_budget_gets_all_of_it() {
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

/// Lets go of what it holds when it is asked for the third time.
#[derive(Debug)]
struct Hoarder(std::sync::Mutex<(u32, Option<Permit>)>);

impl LetGo for Hoarder {
    fn let_go(&self) {
        let (asked, held) = &mut *self.0.lock().unwrap();
        *asked += 1;
        if *asked == 3 {
            *held = None;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_could_do_without_is_asked_while_somebody_waits() {
    let budget = ByteBudget::new(10 * 1024);
    let held = budget.acquire(8 * 1024, PATIENCE).await.unwrap();
    let hoarder = Arc::new(Hoarder(std::sync::Mutex::new((0, Some(held)))));
    let holder: Weak<Hoarder> = Arc::downgrade(&hoarder);
    budget.when_waiting(holder);
    let _free = budget.acquire(2 * 1024, PATIENCE).await.unwrap();
    assert_eq!(hoarder.0.lock().unwrap().0, 0, "nobody waited");
    let another = Arc::new(Hoarder(std::sync::Mutex::new((0, None))));
    let holder: Weak<Hoarder> = Arc::downgrade(&another);
    budget.when_waiting(holder);
    let begun = Instant::now();
    let _waited = budget.acquire(3 * 1024, PATIENCE).await.unwrap();
    assert_eq!(begun.elapsed(), 3 * LET_GO_EVERY);
    assert_eq!(another.0.lock().unwrap().0, 3, "all are asked");
}
