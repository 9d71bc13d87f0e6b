use super::Shortage;
use crate::{StoreError, StoreErrorKind, Verdict};

fn failed(kind: StoreErrorKind) -> Result<Vec<Verdict>, StoreError> {
    Err(StoreError::new(kind, "committing"))
}

#[test]
fn a_shortage_lasts_until_a_plan_is_committed() {
    let shortage = Shortage::default();
    assert_eq!(shortage.get(), None);
    shortage.observe(&failed(StoreErrorKind::Unavailable));
    assert_eq!(shortage.get(), None);
    shortage.observe(&failed(StoreErrorKind::Full));
    assert_eq!(shortage.get().as_deref(), Some("store full while committing"));
    shortage.observe(&failed(StoreErrorKind::Unknown));
    shortage.observe(&Ok(vec![Verdict::Refused { guard: 0, found: None }]));
    assert!(shortage.get().is_some(), "neither shows that there is space");
    shortage.observe(&Ok(vec![Verdict::Committed]));
    assert_eq!(shortage.get(), None);
}
