use super::{MERGER, Toolchain, major, merge};

#[test]
fn the_major_version_is_the_first_number() {
    assert_eq!(major("22.1.2"), Some(22));
    assert_eq!(major(" 19.1.7-rust-1.85.0-stable\n"), Some(19));
    assert_eq!(major("unknown"), None);
}

#[test]
fn the_installed_compiler_is_described() {
    let toolchain = Toolchain::find().expect("it is what built this");
    assert!(toolchain.host.contains('-') && toolchain.llvm > 10, "{toolchain:?}");
    if let Some(merger) = toolchain.merger() {
        assert!(merger.display().to_string().contains(MERGER), "{merger:?}");
    }
    assert!(toolchain.lacks_merger().contains(&format!("llvm-{}", toolchain.llvm)));
}

#[test]
fn no_counts_are_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile");
    let none = folder.path().join("none");
    std::fs::create_dir(&none).expect("an empty folder");
    for counts in [none, folder.path().join("absent")] {
        let error = merge("true".as_ref(), &counts, &profile).expect_err("there are no counts");
        assert!(error.to_string().contains("wrote no counts"), "{error}");
    }
}
