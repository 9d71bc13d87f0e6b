use super::cases;

#[test]
fn every_case_does_its_work() {
    for mut case in cases() {
        (case.work)();
    }
}
