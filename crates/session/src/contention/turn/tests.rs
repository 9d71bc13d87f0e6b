use std::time::Duration;

use super::*;

fn guard(name: &str) -> Guard {
    Guard::Present(record::key::dentry(record::Ino::ROOT, name.as_bytes()))
}

fn reservation(queue: &Arc<Reservations>, expires: Option<Instant>) -> Arc<Reservation> {
    let place = queue.table.join(&[guard("a")], expires).unwrap();
    Arc::new(Reservation { place, reservations: Arc::clone(queue) })
}

fn key(guard: &Guard) -> &Key {
    let Guard::Present(key) = guard else { panic!("{guard:?}") };
    key
}

#[tokio::test]
async fn a_task_of_its_own_gets_the_place_of_its_caller() {
    let (queue, other) = (Arc::<Reservations>::default(), Arc::<Reservations>::default());
    let turn = reservation(&queue, None);
    assert!(place_of_task(&queue).is_none());
    let found = PLACE.scope(Arc::clone(&turn), async {
        assert!(place_of_task(&other).is_none(), "the queue of another session");
        let queue = Arc::clone(&queue);
        let found = async move { place_of_task(&queue).map(|found| found.place) };
        tokio::spawn(in_place(found, place())).await.unwrap()
    });
    assert_eq!(found.await, Some(turn.place));
    drop(turn);
    assert!(queue.table.is_empty());
}

#[tokio::test(start_paused = true)]
async fn others_wait_until_a_turn_expires() {
    let queue = Arc::<Reservations>::default();
    let began = Instant::now();
    let turn = reservation(&queue, Some(began + TURN_DURATION));
    let (a, b) = (guard("a"), guard("b"));
    assert!(queue.table.earlier_of(vec![key(&b)], None).is_none());
    let earlier = queue.table.earlier_of(vec![key(&a)], None).unwrap();
    let deadline = began + Duration::from_secs(1);
    assert!(!queue.table.wait_until(deadline, earlier).await, "the deadline comes first");
    assert!(queue.table.reserve_too(turn.place, &[b.clone()]));
    let earlier = queue.table.earlier_of(vec![key(&b)], None).unwrap();
    assert!(queue.table.wait_until(began + 3 * TURN_DURATION, earlier).await);
    assert_eq!(began.elapsed().as_secs(), TURN_DURATION.as_secs());
    assert!(queue.table.is_empty() && !queue.table.reserve_too(turn.place, &[a]));
}
