use super::*;

fn rounds(values: &[f64]) -> Vec<Sample> {
    values.iter().map(|&value| Sample { value, ..Sample::default() }).collect()
}

fn figure(more_is_better: bool, alone: &[f64], company: &[f64]) -> CompanyFigure {
    CompanyFigure {
        name: "HEAD ×16".to_owned(),
        unit: "/s",
        more_is_better,
        states: vec![("alone", rounds(alone)), ("beside idle peers", rounds(company))],
        wanted: Some(Wanted { must: 0.8, goal: 0.9 }),
        null: None,
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
}

#[test]
fn a_share_is_the_speed_in_company_divided_by_the_speed_alone() {
    close(figure(true, &[100.0], &[62.0]).share(1), 0.62);
    close(figure(false, &[2.0], &[4.0]).share(1), 0.5);
}

#[test]
fn a_share_is_the_median_of_the_shares_of_single_rounds() {
    // The machine slows down by half in each round. The quotient of the medians is 0.4.
    close(figure(true, &[100.0, 50.0, 25.0], &[80.0, 20.0, 20.0]).share(1), 0.8);
}

#[test]
fn a_row_shows_the_share_and_the_reached_target() {
    let row = |company| figure(true, &[100.0], &[company]).row();
    assert_eq!(row(85.0), "| HEAD ×16 | 100 /s | 85.0 /s | 0.85 | – | 0.8 | 0.9 | must |");
    assert!(row(79.0).ends_with("| **below** |") && row(95.0).ends_with("| goal |"));
    let free = CompanyFigure { wanted: None, null: Some(1.5), ..figure(true, &[1.0], &[1.0]) };
    assert!(free.row().ends_with("| 1.00 | 1.50 | – | – | – |"), "{}", free.row());
}

#[test]
fn every_row_has_the_columns_of_its_header() {
    let columns = |line: &str| line.matches('|').count();
    let mut three = figure(true, &[1.0], &[1.0]);
    three.states.push(("beside a writing peer", rounds(&[1.0])));
    for figure in [figure(true, &[1.0], &[1.0]), three] {
        let states = figure.states.len();
        let figures = [figure];
        for (table, rows) in [(table(&figures), 1), (cost_table(&figures), states)] {
            let lines: Vec<&str> = table.lines().collect();
            assert_eq!(lines.len(), 2 + rows, "{table}");
            assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{table}");
        }
    }
}

#[test]
fn costs_are_divided_by_the_operations() {
    let counters =
        |reads, commits, cached| Counters { reads, commits, cached, ..Counters::default() };
    let millis = |all: [u64; 3]| all.map(Duration::from_millis);
    let before = Spent { counters: counters(10, 20, 30), cpu: millis([5, 6, 7]) };
    let after = Spent { counters: counters(110, 220, 30), cpu: millis([105, 16, 27]) };
    let sample = after.sample(before, 100, 7.0);
    let expected = Sample {
        value: 7.0,
        reads: 1.0,
        commits: 2.0,
        cached: 0.0,
        process: 1000.0,
        peers: 100.0,
        database: 200.0,
        latency: None,
    };
    assert_eq!(sample, expected);
    assert!(after.sample(before, 0, 0.0).reads.is_finite(), "no operation");
}

#[test]
fn the_share_of_cpu_time_includes_peers_and_the_database() {
    let mut figure = figure(true, &[1.0], &[1.0]);
    let used = |process, peers, database| Sample { process, peers, database, ..Sample::default() };
    figure.states[0].1 = vec![used(60.0, 0.0, 20.0)];
    figure.states[1].1 = vec![used(100.0, 10.0, 50.0)];
    close(figure.cpu_share(0), 1.0);
    close(figure.cpu_share(1), 0.5);
    assert!(figure.cost_rows()[1].contains("| 100 | 10 | 50 | 0.50 |"), "{figure:?}");
}

#[test]
fn latencies_are_shown_if_each_round_has_them() {
    let mut figure = figure(true, &[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]);
    for (round, milliseconds) in figure.states[1].1.iter_mut().zip([0.5, 2.0, 1.0]) {
        round.latency = Some([milliseconds, milliseconds * 2.0]);
    }
    let rows = figure.cost_rows();
    assert!(rows[0].ends_with("| – | – |"), "{}", rows[0]);
    assert!(rows[1].ends_with("| 1.00 | 2.00 |"), "{}", rows[1]);
}

#[test]
fn the_json_has_each_round_and_the_share() {
    let kept = figure(true, &[100.0, 50.0], &[50.0, 25.0]).json();
    assert_eq!(kept["states"][0]["share"], Value::Null);
    assert_eq!(kept["states"][1]["share"], json!(0.5));
    assert_eq!(kept["states"][1]["rounds"], json!([50.0, 25.0]));
}
