use super::{safe_document, safe_name};

fn shown(name: &[u8]) -> String {
    safe_name(name).to_string()
}

#[test]
fn visible_names_are_shown_unchanged() {
    for name in ["photos/2026/a b.jpg", "it's", "größe", "日本語", "back\\slash", "", "🦀"] {
        assert_eq!(shown(name.as_bytes()), name);
    }
}

#[test]
fn escape_sequences_line_feeds_and_marks_of_direction_do_not_reach_a_terminal() {
    assert_eq!(shown(b"a\x1b]0;owned\x07\x1b[2J"), r"$'a\x1b]0;owned\x07\x1b[2J'");
    assert_eq!(shown(b"one\nfake\tline\r"), r"$'one\nfake\tline\r'");
    assert_eq!(shown(b"it's \\ \x7f"), r"$'it\'s \\ \x7f'");
    assert_eq!(shown("\u{9b}2J".as_bytes()), r"$'\u009b2J'");
    assert_eq!(shown("exe\u{202e}gpj".as_bytes()), r"$'exe\u202egpj'");
    assert_eq!(shown("\u{e0041}".as_bytes()), r"$'\U000e0041'");
    assert_eq!(shown(b"\xff\xfea"), r"$'\xff\xfea'");
}

#[test]
fn no_name_has_a_hidden_character_when_it_is_shown() {
    for code in (0..0x1_1000).chain(0xe_0000..0xe_0100) {
        let Some(character) = char::from_u32(code) else { continue };
        let text = shown(format!("x{character}y").as_bytes());
        assert!(!text.chars().any(super::is_hidden), "{code:x}: {text:?}");
    }
}

#[test]
fn documents_mean_the_same_without_hidden_characters() {
    let sid = "S\u{9b}2J\u{202e}gnp\u{e0041}";
    let json = format!("{{\r\n\t\"Sid\": \"{sid}\"}}");
    let safe = safe_document(&json);
    assert_eq!(safe, "{ \n\t\"Sid\": \"S\\u009b2J\\u202egnp\\udb40\\udc41\"}");
    let read: serde_json::Value = serde_json::from_str(&safe).unwrap();
    assert_eq!(read["Sid"], sid);
    assert_eq!(safe_document("<ID>a\u{9b}2J\u{202e}b</ID>\n"), "<ID>a&#x9b;2J&#x202e;b</ID>\n");
    let plain = "{\"Sid\": \"größe 日本語\"}";
    assert_eq!(safe_document(plain), plain);
}
