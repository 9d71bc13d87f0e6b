use super::*;

/// The comments of a source: line, text, and whether it is plain.
fn comments(text: &str) -> Vec<(usize, String, bool)> {
    let found = read(text).comments.into_iter();
    found.map(|it| (it.line, it.text.trim().to_owned(), it.plain)).collect()
}

#[test]
fn documentation_and_plain_comments_differ_by_their_markers() {
    assert_eq!(
        comments("//! a\n/// b\n// c\nlet d; // e\n//// f"),
        [
            (1, "a".to_owned(), false),
            (2, "b".to_owned(), false),
            (3, "c".to_owned(), true),
            (4, "e".to_owned(), true),
            (5, "// f".to_owned(), true),
        ]
    );
    assert!(read("let d; // e").comments[0].after_code);
    assert!(!read("let d;\n  // e").comments[0].after_code);
}

#[test]
fn literals_hold_no_comments() {
    for code in [
        r#"let a = "https://host";"#,
        r#"let a = "\"// b";"#,
        r##"let a = r#"" // b"#;"##,
        r#"let a = br"// b";"#,
        r#"let a = "two
            // lines";"#,
    ] {
        let source = read(code);
        assert!(source.comments.is_empty(), "{code}");
        assert_eq!(source.code, code);
    }
}

#[test]
fn a_comment_may_follow_a_literal() {
    for code in [
        r#"let a = '"'; // b"#,
        r"let a = '\''; // b",
        r"let a = '\u{2f}'; // b",
        "fn f<'a>(a: &'a str) {} // b",
        "let r#type = 1; // b",
        r#"let a = "\\"; // b"#,
        r##"let for_bar = "a"; let b = r#"c"#; // b"##,
    ] {
        assert_eq!(comments(code), [(1, "b".to_owned(), true)], "{code}");
    }
}

#[test]
fn comments_of_several_lines_are_one_for_each_line() {
    let source = read("a /* b\n /* c */ d */ e");
    let lines: Vec<_> = source.comments.iter().map(|it| (it.line, it.text.trim())).collect();
    assert_eq!(lines, [(1, "b"), (2, "c  d")]);
    assert_eq!(source.code, "a \n e");
}
