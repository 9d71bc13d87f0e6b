use super::options::tests::options;
use super::*;

#[test]
fn rows_are_selected_by_words_of_their_names() {
    let picked = |words: &[&str]| {
        let options = options(words);
        rows::ROWS.iter().filter(|row| options.wants(row.name)).count()
    };
    assert_eq!(picked(&[]), rows::ROWS.len());
    assert_eq!(picked(&["--only", "put"]), 4);
    assert_eq!(picked(&["--only", "Cold,HEAD"]), 2);
    assert_eq!(picked(&["--only", "nothing"]), 0);
}

#[test]
fn row_names_differ_and_goals_are_higher_than_musts() {
    let names: std::collections::BTreeSet<_> = rows::ROWS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows::ROWS.len());
    for row in rows::ROWS {
        assert!(row.wanted.goal > row.wanted.must, "{}", row.name);
    }
}

#[test]
fn a_ratio_is_compared_with_must_and_goal() {
    let wanted = rows::Wanted { must: 2.0, goal: 4.0 };
    assert_eq!([1.99, 2.0, 4.0].map(|it| wanted.verdict(it)), ["**below**", "must", "goal"]);
}
