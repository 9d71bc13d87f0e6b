use super::{LIST_ROWS_MAX, PACKET_BYTES, STATEMENT_BYTES, Script, push_bytes};

#[test]
fn bytes_become_digits() {
    let mut text = String::new();
    push_bytes(&mut text, b"\x00'\xff;");
    push_bytes(&mut text, b"");
    assert_eq!(text, "x'0027ff3b'x''");
}

#[test]
fn a_list_is_one_statement_until_it_is_long() {
    let mut script = Script::default();
    script.list(("in (", ")"), [1, 2, 3], |text, number| text.push_str(&number.to_string()));
    script.list(("in (", ")"), [0; 0], |text, number| text.push_str(&number.to_string()));
    assert_eq!(script.statements, ["in (1,2,3)"]);
    let rows = 2 * LIST_ROWS_MAX + 1;
    script.list(("(", ")"), 0..rows, |text, _| text.push('x'));
    assert_eq!(script.len(), 4);
    assert_eq!(script.statements[3], "(x)");
    let all: usize = script.statements[1..].iter().map(|text| text.matches('x').count()).sum();
    assert_eq!(all, rows);
}

#[test]
fn a_list_of_large_rows_is_split_by_bytes() {
    let mut script = Script::default();
    let row = "x".repeat(STATEMENT_BYTES);
    script.list(("(", ")"), [&row, &row], |text, row| text.push_str(row));
    assert_eq!(script.len(), 2);
}

#[test]
fn packets_hold_whole_statements_and_the_last_one_comes_last() {
    let mut script = Script::default();
    for _ in 0..3 {
        script.statement("x".repeat(PACKET_BYTES / 2 + 1));
    }
    script.statement("COMMIT");
    let packets = script.packets();
    assert_eq!(packets.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 1, 2]);
    assert!(packets[2].0.ends_with(";COMMIT"));
}
