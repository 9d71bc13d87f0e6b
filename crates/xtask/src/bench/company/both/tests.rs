use super::*;

#[test]
fn both_gateways_together_have_as_many_clients_as_one_alone() {
    let clients = |state| workload(state, Duration::from_secs(1)).clients;
    assert_eq!((clients(0), clients(1) * 2), (CLIENTS, CLIENTS));
}

#[test]
fn a_put_may_take_a_fifth_of_a_millisecond_longer() {
    let state = |milliseconds: f64| {
        vec![Sample { latency: Some([milliseconds, 9.0]), ..Sample::default() }]
    };
    let text = |both: f64| {
        let figure = CompanyFigure {
            name: BOTH.to_owned(),
            unit: "/s",
            more_is_better: true,
            states: vec![("alone", state(1.0)), ("both gateways", state(both))],
            wanted: Some(WANTED),
            null: None,
        };
        sentence(&figure)
    };
    assert!(
        text(1.15).ends_with(
            "1.00 ms alone and 1.15 ms at both gateways: +0.15 ms, at most +0.2 ms: must."
        )
    );
    assert!(text(1.25).ends_with("**above**."));
    assert!(text(0.5).contains(": -0.50 ms, at most +0.2 ms: must."));
}
