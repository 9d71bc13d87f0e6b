use super::*;

fn lanes() -> Lanes {
    Lanes::new(Nonce([3; Nonce::BYTES]))
}

#[test]
fn a_settled_lane_is_taken_again_where_it_stands() {
    let lanes = lanes();
    let taken = lanes.try_take().unwrap();
    assert_eq!(taken.guard(), Guard::Absent(taken.key().clone()));
    let Write::Put(key, value) = taken.advance(false) else { panic!("a lane moves by a put") };
    assert_eq!(taken.read(Some(&value)), Step::Taken);
    assert_eq!(taken.read(None), Step::Untouched);
    lanes.settle(taken, Step::Taken);
    let again = lanes.try_take().unwrap();
    assert_eq!(again.guard(), Guard::Equals(key, value));
}

#[test]
fn an_aborted_step_differs_from_a_taken_one() {
    let lanes = lanes();
    let taken = lanes.try_take().unwrap();
    let Write::Put(_, aborted) = taken.advance(true) else { panic!("a lane moves by a put") };
    assert_eq!(taken.read(Some(&aborted)), Step::Aborted);
    lanes.settle(taken, Step::Aborted);
    let again = lanes.try_take().unwrap();
    assert_eq!(again.read(Some(&aborted)), Step::Untouched);
    assert_eq!(again.read(None), Step::Foreign, "a lane with a record does not lose it");
}

#[test]
fn lost_lanes_run_out() {
    let lanes = lanes();
    for _ in 0..LANES_MAX {
        let taken = lanes.try_take().unwrap();
        lanes.settle(taken, Step::Foreign);
    }
    assert!(lanes.try_take().is_none());
    assert_eq!(lanes.keys().len(), usize::from(LANES_MAX));
}
