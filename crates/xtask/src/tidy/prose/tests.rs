use super::super::comments;
use super::*;

/// Counts of one source of the crate `one`.
fn source(text: &str) -> Prose {
    let mut prose = Prose::default();
    prose.add_source("one", "one/src/lib.rs", text, &comments::read(text));
    prose
}

/// Counts of one page.
fn page(text: &str) -> Prose {
    let mut prose = Prose::default();
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    prose.add_page("PAGE.md", &blocks(lines));
    prose
}

/// The places of a mark in the only unit.
fn places(prose: &Prose, mark: Mark) -> Vec<String> {
    let counts = prose.units.values().next().unwrap();
    counts.marks.get(&mark).cloned().unwrap_or_default()
}

/// So many words of plain English.
fn plain(words: usize) -> String {
    "The reader waits.\n".repeat(words / 3)
}

#[test]
fn each_mark_is_found_in_comments() {
    for (mark, text) in [
        (Mark::Headless, "the reader keeps what was read"),
        (Mark::Headless, "the reader keeps what\n// it found"),
        (Mark::Opener, "What the reader keeps."),
        (Mark::Opener, "One two.\n//\n// Who reads waits."),
        (Mark::Opener, "One: Whose turn it is"),
        (Mark::Whoever, "for whoever reads"),
        (Mark::Nobody, "nobody reads"),
        (Mark::Tell, "the reader is told"),
    ] {
        assert_eq!(places(&source(&format!("// {text}")), mark).len(), 1, "{text}");
        assert_eq!(places(&page(&text.replace("// ", "")), mark).len(), 1, "{text}");
        let code = format!("const A: &str = \"// {text}\";").replace('\n', " ");
        assert_eq!(places(&source(&code), mark).len(), 0, "{code}");
    }
    let text = "// a\n/// What is\n/// told here.\nstruct A; // nobody";
    assert_eq!(places(&source(text), Mark::Opener), ["one/src/lib.rs:2: What is"]);
    assert_eq!(places(&source(text), Mark::Tell), ["one/src/lib.rs:3: told here."]);
    assert_eq!(places(&source(text), Mark::Nobody), ["one/src/lib.rs:4: nobody"]);
}

#[test]
fn code_tables_and_questions_are_not_marked() {
    let text =
        "`nobody` and `what is`\n\n| nobody |\n\n```\nnobody\n```\nWhat does it do? Who knows?";
    let prose = page(text);
    assert!(prose.units["PAGE.md"].marks.is_empty(), "{prose:?}");
}

#[test]
fn limits_grow_with_the_words() {
    let hold = |text: &str| page(text).violations_but(&[]).into_iter().next();
    let example = "For example, one. ";
    assert_eq!(hold(&format!("{example}{} nobody", plain(3000))), None);
    let error = hold(&format!("{example}{} nobody\nnobody", plain(3000))).unwrap();
    assert!(error.starts_with("PAGE.md: 2 of nobody/somebody, at most 1\n    PAGE.md:"), "{error}");
    let long = format!("{example}{example}{} nobody\nnobody", plain(12_000));
    assert_eq!(hold(&long), None);
    let error = hold(&format!("{example}{}{}", plain(600), "What the reader keeps. ".repeat(3)));
    assert!(error.is_some_and(|it| it.contains("3 of opening What/Who/Whose, at most 1")));
}

#[test]
fn longer_units_need_examples() {
    let errors = |text: &str| page(text).violations_but(&[]);
    assert!(errors(&plain(900)).is_empty());
    assert_eq!(errors(&plain(1200)), ["PAGE.md: 0 of \"for example\", at least 1"]);
    assert!(errors(&format!("{} e.g. this", plain(1200))).is_empty());
    assert_eq!(
        errors(&format!("{} for\ninstance this", plain(12_000))),
        ["PAGE.md: 1 of \"for example\", at least 2"]
    );
}

#[test]
fn the_workspace_needs_plain_comments() {
    let code = "let a = 1;\n".repeat(98);
    let one = format!("{code}/// Doc.\n// Plain.\n");
    assert_eq!(
        source(&one).violations_but(&[]),
        ["workspace: 1 of 100 lines have plain comments, at least 2 % must"]
    );
    assert!(source(&format!("{code}let b; // Plain.\n// Plain.\n")).violations_but(&[]).is_empty());
}

#[test]
fn the_list_of_exceptions_shrinks() {
    let bad = page("nobody, nobody");
    assert!(bad.violations_but(&["PAGE.md"]).is_empty());
    assert_eq!(
        page("The reader waits.").violations_but(&["PAGE.md"]),
        ["PAGE.md holds the limits of prose: take it off NOT_YET in tidy/prose.rs"]
    );
    assert_eq!(
        bad.violations_but(&["PAGE.md", "other"]),
        ["other in NOT_YET is neither crate nor page"]
    );
}

#[test]
fn the_table_shows_counts_beyond_limits() {
    let table = page("nobody, nobody").table();
    assert!(table.contains("!2 of 1"), "{table}");
}
