use super::*;

fn killed(during_ms: f64) -> Killed {
    Killed { volume: "alone", before_ms: 20.4, during_ms, cached: 7, read: 9 }
}

#[test]
fn a_put_of_more_than_1300_ms_is_too_long() {
    let table = Killed::table(&[killed(1_300.0), killed(1_301.0)]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[2], "| volume alone | 20 ms | 1300 ms | 1300 ms | must | 7 | 9 |");
    assert_eq!(lines[3], "| volume alone | 20 ms | 1301 ms | 1300 ms | **above** | 7 | 9 |");
    let columns = |line: &&str| line.matches('|').count();
    assert!(lines.iter().all(|line| columns(line) == 8), "{table}");
}

#[test]
fn the_json_has_all_columns() {
    let kept = killed(60.0).json();
    assert_eq!((&kept["during_ms"], &kept["at_most_ms"]), (&json!(60.0), &json!(1300.0)));
    assert_eq!((&kept["cached_reads"], &kept["reads"]), (&json!(7), &json!(9)));
}
