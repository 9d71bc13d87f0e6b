use super::*;

#[test]
fn each_row_has_a_workload() {
    let names: Vec<&str> = table_rows().map(|(row, _)| row.name).collect();
    assert_eq!(names, ROWS.map(|(name, _)| name));
}

#[test]
fn goals_are_higher_than_musts() {
    for wanted in table_rows().filter_map(|(_, wanted)| wanted) {
        assert!(wanted.goal > wanted.must);
    }
}

#[test]
fn each_state_is_measured_at_each_place_equally_often() {
    let round = |number| [0, 1, 2].map(|place| state_at(number, place));
    assert_eq!(round(0), State::ALL);
    assert_eq!(round(1), [State::Idle, State::Writing, State::Alone]);
    assert_eq!(round(2), [State::Writing, State::Alone, State::Idle]);
    assert_eq!(round(3), round(0));
}

#[test]
fn only_the_first_state_is_without_peers() {
    assert_eq!(State::ALL.map(State::volume), [0, 1, 1]);
}
