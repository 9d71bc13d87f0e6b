use super::*;

fn slots() -> Arc<IdempotencySlots> {
    IdempotencySlots::resumed(Nonce([3; Nonce::BYTES]), None, Vec::new())
}

#[test]
fn a_settled_slot_is_reused_at_its_step() {
    let slots = slots();
    let taken = slots.try_take().unwrap();
    assert_eq!(taken.guard(), Guard::Absent(taken.key().clone()));
    let Write::Put(key, value) = taken.advance(false) else { panic!("a slot moves by a put") };
    assert_eq!(taken.read(Some(&value)), SlotState::Committed);
    assert_eq!(taken.read(None), SlotState::Unmoved);
    slots.settle(taken, SlotState::Committed);
    let again = slots.try_take().unwrap();
    assert_eq!(again.guard(), Guard::Equals(key, value));
}

#[test]
fn an_aborted_step_differs_from_a_taken_one() {
    let slots = slots();
    let taken = slots.try_take().unwrap();
    let Write::Put(_, aborted) = taken.advance(true) else { panic!("a slot moves by a put") };
    assert_eq!(taken.read(Some(&aborted)), SlotState::Aborted);
    slots.settle(taken, SlotState::Aborted);
    let again = slots.try_take().unwrap();
    assert_eq!(again.read(Some(&aborted)), SlotState::Unmoved);
    assert_eq!(again.read(None), SlotState::Foreign, "a slot with a record does not lose it");
}

#[test]
fn lost_slots_are_never_used_again() {
    let slots = slots();
    for _ in 0..SLOTS_MAX {
        let taken = slots.try_take().unwrap();
        slots.settle(taken, SlotState::Foreign);
    }
    assert!(slots.try_take().is_none());
    assert_eq!(slots.keys().len(), usize::from(SLOTS_MAX));
}

#[test]
fn idle_slots_are_taken_for_a_check_and_given_back() {
    let slots = slots();
    let [first, second] = [slots.try_take().unwrap(), slots.try_take().unwrap()];
    let in_flight = slots.try_take().unwrap();
    slots.settle(second, SlotState::Committed);
    slots.settle(first, SlotState::Aborted);
    let idle = slots.take_idle(10);
    let numbers = |taken: &[TakenSlot]| taken.iter().map(|it| it.step().0).collect::<Vec<_>>();
    assert_eq!(numbers(&idle), [0, 1], "the last used one is the first, and none with a plan");
    let guards: Vec<Guard> = idle.iter().map(TakenSlot::guard).collect();
    assert!(guards.iter().all(|guard| matches!(guard, Guard::Equals(..))), "{guards:?}");
    slots.give_back(idle);
    assert_eq!(numbers(&slots.take_idle(1)), [0]);
    drop(in_flight);
}
