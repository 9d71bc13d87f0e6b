use super::*;

const QUIET: &str = "   Compiling store v0.0.0 (/x/crates/store)
    Finished `dev` profile [unoptimized] target(s) in 3.10s
";

const WARNED: &str = "   Compiling it v0.0.0 (/x/tests/it)
warning: variable does not need to be mutable
 --> tests/it/tests/it/main.rs:3:9
  |
  = note: `#[warn(unused_mut)]` on by default

warning: `it` (test \"it\") generated 1 warning (run `cargo fix` to apply 1 suggestion)
    Finished `dev` profile [unoptimized] target(s) in 3.10s
";

#[test]
fn a_build_without_warnings_passes() {
    assert!(warned(QUIET).is_empty());
    assert_eq!(warnings(QUIET), "");
}

#[test]
fn warnings_are_reported_with_their_crate() {
    let [line] = warned(WARNED)[..] else { panic!("one crate has warnings") };
    assert!(line.contains("test \"it\""));
    let shown = warnings(WARNED);
    assert!(shown.starts_with("warning: variable does not need to be mutable"), "{shown}");
    assert!(shown.ends_with("on by default"), "{shown}");
}

#[test]
fn a_warning_of_cargo_about_the_manifest_is_no_lint() {
    assert!(warned("warning: profile package spec `x` did not match any packages\n").is_empty());
}
