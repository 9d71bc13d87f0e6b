//! The checked-in inputs as ordinary tests, so that mended faults stay mended.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuzz::TARGETS;

/// The time limit of an input in a debug build. The fuzzer allows a second in a release build.
const INPUT_LIMIT: Duration = Duration::from_secs(10);

/// The limit of the length of a checked-in input, in bytes.
const INPUT_BYTES_MAX: u64 = 64 << 10;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the sorted paths of the files in a folder.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn stems(folder: &Path) -> BTreeSet<String> {
    let stem = |path: &PathBuf| path.file_stem().map(|it| it.to_string_lossy().into_owned());
    listed(folder).iter().filter_map(stem).collect()
}

#[test]
fn every_input_that_is_checked_in_passes() {
    for target in TARGETS {
        let inputs = listed(&folder("corpus").join(target.name));
        assert!(inputs.len() >= 3, "{} has {} inputs", target.name, inputs.len());
        for path in inputs {
            let input = fs::read(&path).expect("an input");
            assert!(input.len() as u64 <= INPUT_BYTES_MAX, "{}", path.display());
            let began = Instant::now();
            println!("{}", path.display());
            (target.check)(&input);
            assert!(began.elapsed() < INPUT_LIMIT, "{} takes too long", path.display());
        }
    }
}

/// Variants of the inputs: each cut short, with a byte removed, and with a byte changed.
#[test]
fn near_variants_of_the_inputs_pass() {
    for target in TARGETS {
        for path in listed(&folder("corpus").join(target.name)) {
            let input = fs::read(&path).expect("an input");
            for step in 0..input.len().min(40) {
                let at = step * input.len() / input.len().min(40);
                (target.check)(&input[..at]);
                let mut other = input.clone();
                other[at] = other[at].wrapping_add(1);
                (target.check)(&other);
                other.remove(at);
                (target.check)(&other);
            }
        }
    }
}

#[test]
fn each_target_has_a_program_and_a_corpus() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len());
    assert_eq!(stems(&folder("libfuzzer/fuzz_targets")), names);
    assert_eq!(stems(&folder("corpus")), names);
    assert!(stems(&folder("dictionaries")).is_subset(&names));
    let manifest = fs::read_to_string(folder("libfuzzer/Cargo.toml")).expect("a manifest");
    for name in &names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not built");
    }
}
