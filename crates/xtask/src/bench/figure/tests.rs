use super::*;

fn figure(more_is_better: bool, wanted: Option<Wanted>) -> Figure {
    let cost = Some(Cost {
        gateway: 12.4,
        database: 30.0,
        minio: [1.0, 2.0],
        p50: [3.0, 4.0],
        p99: [5.0, 6.0],
        block_requests: 0.01,
        block_bytes: 4096.0,
        trips: 0.5,
        seconds_per_gb: 1.5,
        stored: None,
    });
    let (name, remark) = ("PUT 4 KiB x16".to_owned(), String::new());
    Figure { name, sides: [100.0, 250.0], unit: "/s", more_is_better, wanted, cost, remark }
}

#[test]
fn a_ratio_above_one_means_that_the_gateway_is_better() {
    assert!((figure(true, None).ratio() - 2.5).abs() < 1e-9);
    assert!((figure(false, None).ratio() - 0.4).abs() < 1e-9);
}

#[test]
fn every_row_has_the_columns_of_its_header() {
    let columns = |line: &str| line.matches('|').count();
    let first = |titles: String| columns(titles.lines().next().expect("a head"));
    for wanted in [None, Some(Wanted { must: 2.0, goal: 4.0 })] {
        let figure = figure(true, wanted);
        assert_eq!(columns(&figure.ratio_row()), first(Figure::ratio_titles()));
        let costs = figure.cost_row().expect("it has costs");
        assert_eq!(columns(&costs), first(Figure::cost_titles()));
    }
}

#[test]
fn a_row_shows_the_reached_target() {
    let row = figure(true, Some(Wanted { must: 2.0, goal: 4.0 })).ratio_row();
    assert_eq!(row, "| PUT 4 KiB x16 | 100 /s | 250 /s | 2.50 | 2 | 4 | must |");
}

#[test]
fn times_are_shown_with_three_digits() {
    assert_eq!([1234.5, 12.34, 1.234].map(rounded), ["1234", "12.3", "1.23"]);
}
