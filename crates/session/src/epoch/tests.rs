use super::*;

#[test]
fn passed_waits_for_the_oldest_reader() {
    let epochs = Epochs::new(7);
    assert_eq!(epochs.passed(), 7);
    let old = Epochs::pin(&epochs);
    epochs.observe(8);
    assert_eq!(epochs.passed(), 7, "a reader of 7 lives");
    let heir = old.clone();
    let young = Epochs::pin(&epochs);
    drop(old);
    assert_eq!(epochs.passed(), 7, "its clone lives");
    drop(heir);
    assert_eq!(epochs.passed(), 8);
    drop(young);
    assert_eq!(epochs.passed(), 8);
    epochs.observe(3);
    assert_eq!(epochs.passed(), 8, "epochs only grow");
}
