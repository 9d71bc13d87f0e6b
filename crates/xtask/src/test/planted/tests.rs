//! Tests: a run of the model counts only if the model itself complains.

use super::*;

/// The log of a run whose model complains in the act of step 17.
const COMPLAINS: &str = "running 1 test

thread 'views_model::both_views' (7) panicked at tests/it/tests/it/views_model/checks.rs:217:9:
assertion `left == right` failed: the versions of (1, \"d/g\")
  left: []
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
memory, step 16: mount 0: close 3
memory, step 17: PUT (1, \"d/g\") 9 bytes
memory: again with ASHLAR_TEST_SEED=1 ASHLAR_TEST_VIEW_STEPS=6000
";

#[test]
fn the_complaint_of_the_model_is_reported_with_its_step() {
    let found = complaint(&MODEL, false, COMPLAINS);
    let expected = "step 17: assertion `left == right` failed: the versions of (1, \"d/g\")";
    assert_eq!(found.as_deref(), Ok(expected));
}

#[test]
fn a_run_without_a_complaint_of_the_model_proves_nothing() {
    assert!(complaint(&MODEL, true, COMPLAINS).is_err(), "it passed");
    let crash = COMPLAINS.replace("tests/it/tests/it/views_model/", "crates/files/src/");
    assert!(complaint(&MODEL, false, &crash).is_err(), "the product crashed");
    let outside = COMPLAINS.replace(REPEATED_BY, "");
    assert!(complaint(&MODEL, false, &outside).is_err(), "it failed before the first step");
    assert!(
        complaint(&MODEL, false, "error: could not compile `files`").is_err(),
        "a build failed"
    );
}

#[test]
fn a_fault_of_leases_must_be_found_by_its_own_test() {
    let fault = |name: &str| Fault { name: name.to_owned(), patch: PathBuf::new() };
    assert_eq!(fault("page-of-one-entry").prover(), &MODEL);
    let prover = fault("lease-late").prover();
    assert_ne!(prover, &MODEL);
    let log = "thread 'leased' panicked at tests/it/tests/it/leased/network.rs:63:24:\n\
               not linearizable: file 3\n";
    assert_eq!(complaint(prover, false, log).as_deref(), Ok("not linearizable: file 3"));
    assert!(complaint(prover, true, log).is_err(), "it passed");
    assert!(complaint(prover, false, COMPLAINS).is_err(), "another test complains");
}

#[test]
fn each_fault_of_leases_has_a_patch_and_a_test_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let planted = faults(&root).unwrap();
    for (names, _) in &LEASES {
        for name in *names {
            assert!(planted.iter().any(|fault| fault.name == *name), "{name} has no patch");
        }
    }
    for fault in planted.iter().filter(|fault| fault.name.starts_with("lease-")) {
        assert_ne!(fault.prover(), &MODEL, "{} has no test", fault.name);
    }
}

#[test]
fn a_patch_must_contain_the_name_of_its_fault() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(PATCHES);
    fs::create_dir_all(&folder).unwrap();
    assert!(faults(root.path()).is_err(), "there are no patches");
    fs::write(folder.join("one.patch"), "+    planted == \"one\"\n").unwrap();
    fs::write(folder.join("README.md"), "").unwrap();
    let found = faults(root.path()).unwrap();
    assert_eq!(found.iter().map(|fault| fault.name.as_str()).collect::<Vec<_>>(), ["one"]);
    fs::write(folder.join("two.patch"), "+    planted == \"one\"\n").unwrap();
    assert!(faults(root.path()).is_err(), "nothing turns on the fault \"two\"");
}

#[test]
fn an_update_of_the_copy_keeps_equal_files_and_removes_deleted_ones() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path();
    fs::create_dir(source.join("a")).unwrap();
    for name in ["a/b", "a/gone", "c"] {
        fs::write(source.join(name), name).unwrap();
    }
    remove_others(source, source, &["a/b", "c"]).unwrap();
    let there = ["a/b", "a/gone", "c"].map(|name| source.join(name).exists());
    assert_eq!(there, [true, false, true]);
}
