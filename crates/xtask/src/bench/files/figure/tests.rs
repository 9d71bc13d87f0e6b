use super::*;

const WANTED: Wanted = Wanted { must: 0.25, goal: 0.5 };

fn figure(more_is_better: bool, target: Target) -> FileFigure {
    let beside = Some(Beside { name: "null", value: 1000.0 });
    let (name, cost) = ("unlink ×1".to_owned(), None);
    FileFigure { name, beside, ours: 400.0, unit: "/s", more_is_better, target, cost }
}

fn alone(ours: f64, target: Target) -> FileFigure {
    FileFigure { beside: None, ours, ..figure(true, target) }
}

#[test]
fn a_ratio_above_one_means_that_ashlar_is_better() {
    let ratio = |more| figure(more, Target::Nothing).ratio().expect("there is another side");
    assert!((ratio(true) - 0.4).abs() < 1e-9);
    assert!((ratio(false) - 2.5).abs() < 1e-9);
    assert_eq!(alone(1.0, Target::Nothing).ratio(), None);
}

#[test]
fn a_row_shows_the_reached_target() {
    let row = figure(true, Target::Ratio(WANTED)).row();
    assert_eq!(row, "| unlink ×1 | null | 1000 /s | 400 /s | 0.400 | × 0.25 | × 0.5 | must |");
    let row = alone(400.0, Target::AtLeast(Wanted { must: 1500.0, goal: 4000.0 })).row();
    assert_eq!(row, "| unlink ×1 | – | – | 400 /s | – | 1500 | 4000 | **below** |");
    let reached = |ours| alone(ours, Target::AtMost(1.0)).reached().2;
    assert_eq!([reached(0.9), reached(1.0), reached(1.1)], ["must", "must", "**above**"]);
    assert_eq!(alone(1.0, Target::Ratio(WANTED)).reached().2, "–", "nothing to compare it with");
}

#[test]
fn every_row_has_the_columns_of_its_header() {
    let columns = |line: &str| line.matches('|').count();
    let first = |titles: &str| columns(titles.lines().next().expect("a head"));
    let requests = Some((2.0, "LOOKUP 1, CREATE 1".to_owned()));
    for cost in [FileCost::default(), FileCost { requests, ..FileCost::default() }] {
        let figure = FileFigure { cost: Some(cost), ..figure(true, Target::Ratio(WANTED)) };
        assert_eq!(columns(&figure.row()), first(FileFigure::titles()));
        let costs = figure.cost_row().expect("it has costs");
        assert_eq!(columns(&costs), first(FileFigure::cost_titles()));
    }
    assert!(figure(true, Target::Nothing).cost_row().is_none());
}

#[test]
fn the_json_has_the_ratio_and_the_verdict() {
    let kept = figure(true, Target::Ratio(WANTED)).json();
    assert_eq!((&kept["ratio"], &kept["reached"]), (&json!(0.4), &json!("must")));
    let kept = alone(3.0, Target::AtMost(1.0)).json();
    assert_eq!((&kept["ratio"], &kept["reached"]), (&Value::Null, &json!("above")));
}
