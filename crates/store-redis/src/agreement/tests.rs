use super::{Answer, Master, agree};

#[expect(clippy::unnecessary_wraps, reason = "a row of answers")]
fn named(port: u16, epoch: u64) -> Answer {
    Ok(Master { host: "10.0.0.1".to_owned(), port, epoch })
}

fn silent() -> Answer {
    Err("no answer".to_owned())
}

/// Returns the port of the master, or the sentence, if no lookup has known a higher epoch than
/// `known`.
fn port(answers: &[Answer], known: u64) -> Result<u16, String> {
    agree(answers, known, known).map(|master| master.port)
}

#[test]
fn most_sentinels_must_name_a_master() {
    assert_eq!(port(&[named(1, 0)], 0), Ok(1));
    assert_eq!(port(&[silent(), named(1, 0), named(1, 0)], 0), Ok(1));
    for answers in [
        vec![silent()],
        vec![named(1, 0), silent()],
        vec![named(1, 9), silent(), silent()],
        vec![named(1, 9), silent(), named(1, 9), silent()],
    ] {
        let sentence = port(&answers, 0).expect_err("too few");
        assert!(sentence.contains("most of them must"), "{sentence}");
    }
}

#[test]
fn the_highest_epoch_decides_if_one_sentinel_has_it() {
    assert_eq!(port(&[named(1, 4), named(2, 5), named(1, 4)], 4), Ok(2));
    assert_eq!(port(&[named(1, 4), named(2, 5), silent()], 4), Ok(2));
}

#[test]
fn two_masters_of_one_epoch_are_refused() {
    let sentence = port(&[named(1, 4), named(2, 4), named(2, 4)], 4).expect_err("two masters");
    assert!(sentence.contains("different masters"), "{sentence}");
    assert_eq!(port(&[named(1, 4), named(2, 4), named(3, 5)], 4), Ok(3));
}

#[test]
fn an_epoch_below_a_known_one_is_refused() {
    for answers in
        [vec![named(1, 4), named(1, 4), silent()], vec![named(1, 4), named(1, 4), named(1, 3)]]
    {
        let sentence = port(&answers, 5).expect_err("an old master");
        assert!(sentence.contains("epoch 4") && sentence.contains("epoch 5"), "{sentence}");
        assert_eq!(port(&answers, 4), Ok(1));
    }
}

#[test]
fn a_lower_epoch_is_accepted_if_all_sentinels_agree_on_it() {
    let anew = [named(1, 0), named(1, 0), named(1, 0)];
    assert_eq!(port(&anew, 5), Ok(1));
    // Another lookup has seen a failover since this one began.
    let sentence = agree(&anew, 0, 1).expect_err("answers of before the failover");
    assert!(sentence.contains("epoch 1"), "{sentence}");
}
