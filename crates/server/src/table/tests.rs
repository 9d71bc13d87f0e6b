use super::*;

fn table() -> Table {
    let mut table = Table::new(&["name", "used_bytes", "policies"]);
    let of = |bytes, limit| Cell::Of(Box::new(Cell::Bytes(bytes)), limit);
    let names = Cell::Names(vec!["a".to_owned(), "b".to_owned()]);
    table.add(vec![Cell::text("anna"), of(3 << 20, Some(1 << 30)), names]);
    table.add(vec![Cell::text("ü"), of(7, None), Cell::Names(Vec::new())]);
    table
}

#[test]
fn a_terminal_gets_aligned_columns_and_human_sizes() {
    let expected = [
        "NAME  USED BYTES            POLICIES",
        "anna  3.00 MiB of 1.00 GiB  a b",
        "ü     7 B                   -",
    ];
    assert_eq!(table().lines(true), expected);
    assert!(Table::new(&["name"]).lines(true).is_empty(), "no header of an empty list");
}

#[test]
fn pairs_become_an_object() {
    let pairs = Cell::Pairs(vec![
        ("source".to_owned(), Cell::text("a\nb")),
        ("bytes".to_owned(), Cell::Bytes(2 << 20)),
    ]);
    assert_eq!(pairs.json(), json!({ "source": "a\nb", "bytes": 2 << 20 }));
    assert!(pairs.shown(true).ends_with(", bytes=2.00 MiB"), "{}", pairs.shown(true));
    assert!(!pairs.shown(true).contains('\n'), "a name must not break a line");
    assert_eq!(Cell::Pairs(Vec::new()).shown(true), "-");
}

#[test]
fn documents_and_tags_of_clients_do_not_control_a_terminal() {
    let hidden = ['\u{9b}', '\u{202e}', '\u{2028}'];
    let text: String = hidden.iter().collect();
    for (cell, escape) in [
        (Cell::Document(format!("{{\"Sid\": \"{text}\"}}")), "\\u202e"),
        (Cell::Document(format!("<ID>{text}</ID>")), "&#x202e;"),
        (Cell::Names(vec![format!("k={text}")]), "\\u202e"),
    ] {
        for human in [true, false] {
            let shown = cell.shown(human);
            assert!(!shown.contains(hidden) && shown.contains(escape), "{shown:?}");
        }
    }
}

#[test]
fn a_number_that_is_no_size_has_no_separators() {
    // A uid is one of them, and a person copies it into another command.
    assert_eq!(Cell::Count(1_000).shown(true), "1000");
}

#[test]
fn a_pipe_gets_tabs_and_exact_numbers() {
    assert_eq!(table().lines(false), ["anna\t3145728 of 1073741824\ta b", "ü\t7\t"]);
}

#[test]
fn json_has_an_object_for_each_row() {
    let expected = json!([
        {"name": "anna", "used_bytes": {"used": 3_145_728, "limit": 1_073_741_824}, "policies": ["a", "b"]},
        {"name": "ü", "used_bytes": {"used": 7, "limit": null}, "policies": []},
    ]);
    assert_eq!(table().json(), expected);
}

#[test]
fn a_name_with_control_characters_stays_on_its_line() {
    let cell = Cell::text("a\x1b[2J\nb\tc");
    for human in [true, false] {
        assert!(!cell.shown(human).contains(['\x1b', '\n', '\t']), "{:?}", cell.shown(human));
    }
    assert_eq!(cell.json(), json!("a\u{1b}[2J\nb\tc"));
}

#[test]
fn properties_are_lines_or_one_object() {
    let document = Cell::Document("{\n  \"a\": [1]\n}".to_owned());
    let properties: Properties =
        vec![("opaque_etags", Cell::Flag(false)), ("made", Cell::time(None)), ("policy", document)];
    let lines = ["opaque etags  no", "made          -", "policy        { \"a\": [1] }"];
    assert_eq!(property_lines(&properties, true), lines);
    let expected = json!({"opaque_etags": false, "made": null, "policy": {"a": [1]}});
    assert_eq!(object(&properties), expected);
    let xml = Cell::Document("<a>\n</a>".to_owned());
    assert_eq!(xml.json(), json!("<a>\n</a>"), "a document that is no JSON is a text");
}
