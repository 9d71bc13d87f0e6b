use std::fs;
use std::path::Path;

use super::*;

fn found(names: &[&str]) -> Vec<String> {
    let known = known(&crate::cli::description());
    let unknown = of(names.iter().map(|&name| name.to_owned()), &known);
    unknown.iter().map(ToString::to_string).collect()
}

#[test]
fn a_misspelt_variable_is_named_with_the_nearest_known_name() {
    for (name, nearest) in [
        ("ASHLAR_DATADIR", "ASHLAR_DATA_DIR"),
        ("ASHLAR_META_URL", "ASHLAR_META"),
        ("ASHLAR_ROOT_PASWORD", "ASHLAR_ROOT_PASSWORD"),
        ("ASHLAR_META_PASSWORDFILE", "ASHLAR_META_PASSWORD_FILE"),
    ] {
        let expected = format!(
            "no option reads the variable {name}, so it has no effect; the nearest known name is \
             {nearest}"
        );
        assert_eq!(found(&[name]), [expected]);
    }
    let unlike = found(&["ASHLAR_SOMETHING_COMPLETELY_DIFFERENT"]);
    assert!(unlike.len() == 1 && !unlike[0].contains("nearest"), "{unlike:?}");
    check(&of(["ASHLAR_X".to_owned()].into_iter(), &BTreeSet::new())).expect_err("unknown");
    check(&[]).expect("none is unknown");
}

#[test]
fn known_variables_and_those_of_other_programs_are_accepted() {
    let none: [&str; 0] = [];
    let names = [
        "ASHLAR_DATA_DIR",
        "ASHLAR_CONFIG",
        "ASHLAR_ENDPOINT",
        "ASHLAR_BLOCKS_SECRET_KEY_FILE",
        "ASHLAR_MASTER_KEY",
        "ASHLAR_MASTER_KEY_FILE",
        "ASHLAR_TEST_SEED",
        "ASHLAR_BIN",
        "ASHLAR_XTASK_PAGES",
        "ASHLAR_SERVICE_HOST",
        "ASHLAR_SERVICE_PORT_S3",
        "ASHLAR_CONSOLE_PORT",
        "ASHLAR_PORT_9700_TCP_ADDR",
        "PATH",
    ];
    assert_eq!(found(&names), none);
}

/// Adds the names in quotes that the sources below `folder` contain, without the sources of tests.
fn quoted_names(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_of_tests = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_of_tests {
            quoted_names(&path, names);
        } else if path.extension().is_some_and(|it| it == "rs") && !is_of_tests {
            let text = fs::read_to_string(&path).expect("a source");
            let quoted = text.split('"').filter(|words| words.starts_with(PREFIX));
            let is_name = |words: &&str| {
                words.len() > PREFIX.len()
                    && words.bytes().all(|it| it.is_ascii_uppercase() || it == b'_')
            };
            names.extend(quoted.filter(is_name).map(str::to_owned));
        }
    }
}

#[test]
fn each_variable_that_the_sources_name_is_known() {
    let mut names = BTreeSet::new();
    quoted_names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
    assert!(names.len() > 60, "the sources name few variables: {names:?}");
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert_eq!(found(&names), Vec::<String>::new());
}
