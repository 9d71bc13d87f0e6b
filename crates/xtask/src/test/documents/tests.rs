use super::*;

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

#[test]
fn arguments_of_tests_are_left_out_with_their_values() {
    let given = words("--crate-name store --test src/lib.rs --test-run-directory /crates -L x");
    assert_eq!(without(&given, &OF_TESTS), words("--crate-name store src/lib.rs -L x"));
}

#[test]
fn a_program_has_the_libraries_of_its_package() {
    let library = words("--crate-type lib --crate-name fuse src/lib.rs --extern fuse=libfuse.rlib");
    let program =
        of_program(&library, Path::new("/fuse/examples/null/main.rs")).expect("a program");
    let wanted =
        "--crate-type bin --crate-name null /fuse/examples/null/main.rs --extern fuse=libfuse.rlib";
    assert_eq!(program, words(wanted));
}

#[test]
fn programs_have_names_of_their_own() {
    let name = |path: &str| name_of_program(Path::new(path)).expect("a name");
    assert_eq!(name("/crates/server/src/main.rs"), "server_program");
    assert_eq!(name("/crates/fuse/examples/null/main.rs"), "null");
    assert_eq!(name("/crates/load/examples/commit-rate.rs"), "commit_rate");
}

#[test]
fn programs_and_examples_of_a_package_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in ["src", "examples/null"] {
        std::fs::create_dir_all(folder.path().join(path)).expect("a folder");
    }
    for path in ["src/main.rs", "src/lib.rs", "examples/null/main.rs", "examples/puts.rs"] {
        std::fs::write(folder.path().join(path), "").expect("a file");
    }
    let found = programs(folder.path()).expect("they are listed");
    let wanted = ["examples/null/main.rs", "examples/puts.rs", "src/main.rs"];
    assert_eq!(found, wanted.map(|path| folder.path().join(path)));
}
