use super::super::commands::Types;
use super::*;

/// A repository with a few files, in which `code` is Rust.
fn repository(code: &str) -> Repository {
    let mut types = Types::default();
    types.add(&[], "#[derive(Parser)] struct Cli { #[arg(long)] config: bool }").unwrap();
    let mut names = Repository {
        members: BTreeSet::from(["volume".to_owned(), "store-redis".to_owned()]),
        programs: vec![Program::read("ashlar", &types).unwrap()],
        ..Repository::default()
    };
    for path in ["crates/volume/src/tests/commit.rs", "docs/OTHER.md", "tests/it/tests/it/full.rs"]
    {
        names.add_path(path);
    }
    names.add_code("crates/volume/src/tests/commit.rs", code, "fn");
    let other = Page::parse("docs/OTHER.md", "# One `two`, three\n\n## Four\n\n## Four\n");
    names.anchors.insert(other.path.clone(), anchors(&other));
    names
}

/// The violations of a page in `docs`, without its path.
#[track_caller]
fn found(code: &str, text: &str) -> Vec<String> {
    let violations = repository(code).violations(&Page::parse("docs/PAGE.md", text));
    violations.into_iter().map(|it| it.strip_prefix("docs/PAGE.md:").unwrap().to_owned()).collect()
}

#[test]
fn paths_in_backticks_exist() {
    for path in [
        "commit.rs",
        "volume/src/tests/commit.rs",
        "volume/src/tests",
        "crates/volume/src/",
        "OTHER.md",
        "../crates/volume",
        "tests/it/…/full.rs",
        "volume/src/tests/{commit,commit}.rs",
        "crates/*/src",
        "crates/NAME/src",
    ] {
        assert!(found("", &format!("a\n`{path}`")).is_empty(), "{path}");
    }
    for path in [
        "late.rs",
        "volume/src/tests/late.rs",
        "volume/tests/late",
        "mit.rs",
        "docs/LATE.md",
        "tests/it/…/late.rs",
        "volume/src/tests/{commit,late}.rs",
        "crates/*/late",
        "NAME.py",
    ] {
        let error = format!("2: there is no file or folder {path}");
        assert_eq!(found("", &format!("a\n`{path}`")), [error]);
    }
}

#[test]
fn other_texts_in_backticks_are_no_paths() {
    for text in ["a/b", "/dev/fuse", "s3:GetObject/*", "redis://HOST/x.rs", "volume", "a b.rs"] {
        assert!(found("", &format!("`{text}`")).is_empty(), "{text}");
    }
}

#[test]
fn links_lead_somewhere() {
    for target in ["OTHER.md", "../crates/volume", "OTHER.md#one-two-three", "OTHER.md#four-1"] {
        assert!(found("", &format!("[a]({target})")).is_empty(), "{target}");
    }
    assert!(found("", "[a](https://host/LATE.md)").is_empty());
    assert_eq!(found("", "[a](LATE.md)"), ["1: the link to LATE.md leads nowhere"]);
    assert_eq!(found("", "[a](OTHER.md#late)"), ["1: docs/OTHER.md has no heading for #late"]);
}

#[test]
fn tests_that_a_page_lists_are_functions() {
    let code = "mod commit; fn a_reader_waits() {} const A_WRITER: &str = \"a_writer_waits\";";
    assert!(found(code, "*Tests:* `commit.rs` `a_reader_waits`").is_empty());
    assert_eq!(
        found(code, "One.\n*Tests:* `commit.rs`\n`a_writer_waits`."),
        ["3: there is no test a_writer_waits"]
    );
    for file in ["volume/src/tests/commit.rs", "commit.rs", "volume/src/tests", "volume::commit"] {
        assert!(found(code, &format!("*Tests:* `{file}` `a_reader_waits`")).is_empty(), "{file}");
    }
    let inline = "`their_setting`, `commit.rs`. *Tests:* `commit.rs` `a_late_test`";
    assert_eq!(found(code, inline), ["1: there is no test a_late_test"]);
    assert_eq!(
        found(code, "*Tests:* `commit.rs`; `tests/it/…/full.rs` `a_reader_waits`"),
        [
            "1: a_reader_waits is not in tests/it/…/full.rs, but in crates/volume/src/tests/commit.rs"
        ]
    );
}

#[test]
fn long_names_occur_in_the_sources() {
    let code = "const A: u8 = the_size_in_all_bytes;";
    assert!(found(code, "`the_size_in_all_bytes`, `their_setting`").is_empty());
    assert_eq!(
        found(code, "`a_very_late_name`"),
        ["1: there is no a_very_late_name in the sources"]
    );
}

#[test]
fn paths_of_rust_exist() {
    let code = "pub struct Batch;";
    assert!(found(code, "`volume::Batch` and `volume::Batch(a)`").is_empty());
    assert_eq!(found(code, "`volume::Late`"), ["1: volume::Late: there is no Late in the sources"]);
    assert!(found(code, "`arn:aws:iam::0:role/late`").is_empty());
}

#[test]
fn metrics_and_variables_occur_in_the_sources() {
    let code = "f(\"ashlar_cache_bytes\", \"ASHLAR_META\", \"panics\");";
    for name in [
        "ashlar_cache_bytes_total{a=\"b\"}",
        "ashlar_cache_…",
        "ashlar_panics_total",
        "ASHLAR_META=a",
        "ASHLAR_META_FILE",
    ] {
        assert!(found(code, &format!("`{name}`")).is_empty(), "{name}");
    }
    for name in ["ashlar_late_total", "ashlar_late_", "ASHLAR_LATE"] {
        let error = format!("1: there is no {name} in the sources");
        assert_eq!(found(code, &format!("`{name}`")), [error]);
    }
    let page = Page::parse(STYLE, "| `ashlar_late` |");
    assert!(repository(code).violations(&page).is_empty(), "an example of style");
}

#[test]
fn commands_are_checked_in_text_and_in_shell_code() {
    assert!(found("", "`ashlar --config`, `--config`\n\n```sh\nashlar --config\n```").is_empty());
    assert_eq!(found("", "`ashlar --late`"), ["1: ashlar has no flag --late"]);
    assert_eq!(found("", "`--late`"), ["1: no program of ours has a flag --late"]);
    assert_eq!(found("", "a\n```sh\n\nashlar --late\n```"), ["4: ashlar has no flag --late"]);
    let long = "```sh\nA=b sudo ashlar \\\n  --config \\\n  --late\n```";
    assert_eq!(found("", long), ["4: ashlar has no flag --late"]);
    assert!(found("", "```\nashlar --late\n```").is_empty(), "output");
}

#[test]
fn merge_conflicts_are_refused() {
    let mark = "<".repeat(7);
    let error = "2: a merge conflict is not resolved";
    assert_eq!(found("", &format!("One.\n{mark} HEAD\nTwo.")), [error]);
}

#[test]
fn the_page_of_changes_names_the_past() {
    let page = Page::parse(CHANGES, "`late.rs`, `ashlar --late`");
    assert!(repository("").violations(&page).is_empty());
}
