use super::*;

fn slots() -> IdempotencySlots {
    IdempotencySlots::new(Nonce([3; Nonce::BYTES]), None)
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
