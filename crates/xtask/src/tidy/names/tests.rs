use std::path::Path;

use anyhow::Context as _;

use super::super::outline::Outline;
use super::*;

/// Returns the public types of crates. Each crate is a name and the text of its root file.
#[track_caller]
fn types(crates: &[(&str, &str)]) -> PublicTypes {
    let mut types = PublicTypes::default();
    for (package, root) in crates {
        let text = |path: &Path| {
            let found = (path == Path::new("src/lib.rs")).then(|| (*root).to_owned());
            found.context("no such file")
        };
        types.add(package, &Outline::build(Path::new("src/lib.rs"), &text).unwrap());
    }
    types
}

#[test]
fn public_types_of_the_same_name_are_refused() {
    let both =
        types(&[("one", "pub struct Span;"), ("other", "pub mod range { pub enum Span {} }")]);
    assert_eq!(both.violations(), ["several public types have the name Span: one, other::range"]);
    let one =
        types(&[("one", "pub mod a { pub trait Span {} } pub mod b { pub type Span = u8; }")]);
    assert_eq!(one.violations(), ["several public types have the name Span: one::a, one::b"]);
    let made = types(&[("one", "pub struct Code;"), ("other", "codes! { pub enum Code { A } }")]);
    assert_eq!(made.violations().len(), 1, "a type in the arguments of a macro counts");
}

#[test]
fn types_that_are_not_public_may_share_a_name() {
    let other = "
        pub(crate) struct Span; struct Text(pub Span);
        pub fn span() -> Span { struct Span; }
        pub use one::Span as Piece;
        impl Iterator for Text { type Item = Span; }
        #[cfg(test)] pub struct Span;
        #[cfg(test)] mod tests { pub struct Span; }
    ";
    let types = types(&[("one", "pub struct Span; pub struct Item;"), ("other", other)]);
    assert!(types.violations().is_empty());
}
