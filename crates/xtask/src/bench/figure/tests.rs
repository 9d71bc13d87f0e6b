use super::*;

fn figure(more_is_better: bool, stored: Option<f64>) -> Figure {
    let cost = Some(Cost { gateway: 12.4, database: 30.0, stored });
    let name = "PUT 4 KiB x16".to_owned();
    Figure { name, sides: [100.0, 200.0], unit: "/s", more_is_better, cost, remark: String::new() }
}

#[test]
fn a_ratio_above_one_means_that_ours_is_better() {
    assert!(figure(true, None).sides().ends_with(" 2.00"));
    assert!(figure(false, None).sides().ends_with(" 0.50"));
}

#[test]
fn columns_stand_below_their_titles() {
    let width = |line: &str| line.trim_end().chars().count();
    for stored in [None, Some(4321.0)] {
        assert_eq!(width(&figure(true, stored).to_string()), width(&Figure::titles()));
    }
}

#[test]
fn a_median_needs_no_order() {
    assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    assert!(median(Vec::new()).is_nan());
}
