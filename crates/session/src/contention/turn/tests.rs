use std::time::Duration;

use store::{Guard, Key};

use super::*;
use crate::times::TURN_DURATION;

fn guard(name: &str) -> Guard {
    Guard::Present(record::key::dentry(record::Ino::ROOT, name.as_bytes()))
}

fn key(guard: &Guard) -> &Key {
    let Guard::Present(key) = guard else { panic!("{guard:?}") };
    key
}

/// Takes a place that reserves `a`.
fn reservation(queue: &Arc<Reservations>) -> Arc<Reservation> {
    let place = queue.table.join(&[guard("a")], false).unwrap();
    Arc::new(Reservation { place, reservations: Arc::clone(queue) })
}

fn turn(reservation: &Arc<Reservation>) -> Turn {
    let deadline = Instant::now() + Duration::from_secs(30);
    Turn { reservation: Arc::clone(reservation), deadline }
}

#[tokio::test]
async fn a_task_of_its_own_gets_the_turn_of_its_caller() {
    let (queue, other) = (Arc::<Reservations>::default(), Arc::<Reservations>::default());
    let reservation = reservation(&queue);
    assert!(of_task(&queue).is_none());
    let found = PLACE.scope(Some(turn(&reservation)), async {
        assert!(of_task(&other).is_none(), "the queue of another session");
        let queue = Arc::clone(&queue);
        let found = async move { of_task(&queue).map(|found| found.reservation.place) };
        #[expect(clippy::disallowed_methods, reason = "the test joins it")]
        let spawned = tokio::spawn(in_place(found, place()));
        spawned.await.unwrap()
    });
    assert_eq!(found.await, Some(reservation.place));
    drop(reservation);
    assert!(queue.table.is_empty());
}

#[tokio::test]
async fn an_expired_turn_is_no_place() {
    let queue = Arc::<Reservations>::default();
    let reservation = reservation(&queue);
    queue.table.leave(reservation.place);
    PLACE.scope(Some(turn(&reservation)), async { assert!(of_task(&queue).is_none()) }).await;
}

#[tokio::test(start_paused = true)]
async fn others_wait_until_a_turn_expires() {
    let queue = Arc::<Reservations>::default();
    let began = Instant::now();
    let turn = reservation(&queue);
    queue.table.expire_at(turn.place, began + TURN_DURATION);
    queue.table.expire_at(turn.place, began + 9 * TURN_DURATION);
    let (a, b) = (guard("a"), guard("b"));
    assert!(queue.table.earlier_of(vec![key(&b)], None, false).is_none());
    let earlier = queue.table.earlier_of(vec![key(&a)], None, false).unwrap();
    let deadline = began + TURN_DURATION / 4;
    assert!(!queue.table.wait_until(deadline, earlier).await, "the deadline comes first");
    assert!(queue.table.reserve_too(turn.place, std::slice::from_ref(&b)));
    let earlier = queue.table.earlier_of(vec![key(&b)], None, false).unwrap();
    assert!(queue.table.wait_until(began + 3 * TURN_DURATION, earlier).await);
    assert_eq!(began.elapsed().as_secs(), TURN_DURATION.as_secs());
    assert!(queue.table.is_empty() && !queue.table.reserve_too(turn.place, &[a]));
}

#[tokio::test(start_paused = true)]
async fn a_turn_in_the_queue_does_not_expire() {
    let queue = Arc::<Reservations>::default();
    let (front, turn) = (reservation(&queue), reservation(&queue));
    let a = guard("a");
    let deadline = Instant::now() + 30 * TURN_DURATION;
    for _ in 0..5 {
        let earlier = queue.table.earlier_of(vec![key(&a)], None, false).unwrap();
        assert_eq!(earlier.place, turn.place);
        assert!(queue.table.wait_until(deadline, earlier).await, "look again");
    }
    drop(front);
    assert!(queue.table.has(turn.place));
}

#[test]
fn operations_that_only_read_do_not_wait_for_each_other() {
    let table = super::super::table::Table::default();
    let a = guard("a");
    let guards = std::slice::from_ref(&a);
    let [first, second] = [(); 2].map(|()| table.join(guards, true).unwrap());
    assert!(table.earlier_of(vec![key(&a)], Some(second), true).is_none());
    let writer = table.join(guards, false).unwrap();
    assert_eq!(table.earlier_of(vec![key(&a)], Some(writer), false).unwrap().place, second);
    let reader = table.join(guards, true).unwrap();
    assert_eq!(table.earlier_of(vec![key(&a)], Some(reader), true).unwrap().place, writer);
    assert!(table.has(first));
}
