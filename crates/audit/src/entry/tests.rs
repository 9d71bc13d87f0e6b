use super::{AuditEntry, shortened};

#[test]
fn a_long_text_is_cut_between_characters() {
    assert_eq!(shortened("äöü".to_owned(), 5), "äö");
    assert_eq!(shortened("short".to_owned(), 5), "short");
}

#[test]
fn the_memory_of_an_entry_counts_its_texts() {
    let small = AuditEntry::default().memory();
    let key = Some("k".repeat(1000));
    let user_agent = Some("u".repeat(500));
    let entry = AuditEntry { key, user_agent, ..AuditEntry::default() };
    assert_eq!(entry.memory(), small + 1500);
}
