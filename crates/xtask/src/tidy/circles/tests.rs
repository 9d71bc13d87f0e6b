use std::path::Path;

use anyhow::Context as _;

use super::super::outline::Outline;
use super::*;

/// Returns the circles of a crate with these files in `src`.
#[track_caller]
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let text = |path: &Path| {
        let file = files.iter().find(|(name, _)| Path::new("src").join(name) == path);
        file.map(|(_, text)| (*text).to_owned()).context("no such file")
    };
    circles(&Outline::build(Path::new("src/lib.rs"), &text).unwrap())
}

#[test]
fn two_modules_that_import_each_other_are_a_circle() {
    assert_eq!(
        found(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;\npub struct A(B);"),
            ("b.rs", "\npub struct B;\nfn f() -> crate::a::A { g() }"),
        ]),
        ["a -> b (B, line 1), b -> a (A, line 3)"]
    );
}

#[test]
fn three_modules_can_form_a_circle() {
    let circles = found(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use super::{b::{self}, d::D}; pub fn a() { b::b(); }"),
        ("b.rs", "pub fn b() { super::c::c(); }"),
        ("c.rs", "use crate::a as first; pub fn c() { first::a(); }"),
        ("d.rs", "pub struct D;"),
    ]);
    assert_eq!(circles, ["a -> b (b, line 1), b -> c (c, line 1), c -> a (a, line 1)"]);
}

#[test]
fn each_circle_is_reported_once() {
    let circles = found(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; use crate::c::C; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
        ("c.rs", "use crate::d::D; pub struct C;"),
        ("d.rs", "use crate::c::C; pub struct D;"),
    ]);
    assert_eq!(circles.len(), 2, "{circles:?}");
    assert!(!circles.concat().contains("a -> c"), "an arrow between circles is in neither");
}

#[test]
fn arrows_lead_through_re_exports_to_the_definition() {
    for lib in ["pub use folder::B;", "pub use folder::*;", "use folder::B;"] {
        let lib = format!("mod a; mod folder; {lib}");
        let circles = found(&[
            ("lib.rs", &lib),
            ("a.rs", "use crate::B; pub struct A(B);"),
            ("folder/mod.rs", "mod b; pub use self::b::*;"),
            ("folder/b.rs", "use crate::a::A; pub struct B(Option<A>);"),
        ]);
        assert_eq!(circles, ["a -> folder::b (B, line 1), folder::b -> a (A, line 1)"], "{lib}");
    }
    let circles = found(&[
        ("lib.rs", "pub mod a; mod b;"),
        ("a.rs", "pub use crate::b::B; pub struct A;"),
        ("b.rs", "pub struct B(crate::a::A);"),
    ]);
    assert_eq!(circles.len(), 1, "a re-export of a sibling's item is an import");
}

#[test]
fn a_parent_and_its_child_can_form_a_circle() {
    let child = ("a/child.rs", "use super::A; pub struct Child(A);");
    let circle = ["a -> a::child (Child, line 1), a::child -> a (A, line 1)"];
    for parent in [
        "mod child; use child::Child; pub struct A(Option<Child>);",
        "mod child; pub use child::Child; pub struct A(Option<Child>);",
        "mod child; pub struct A(Option<child::Child>);",
        "mod child; pub struct A; mod inner { fn f(it: super::child::Child) {} }",
    ] {
        assert_eq!(found(&[("lib.rs", "mod a;"), ("a.rs", parent), child]), circle, "{parent}");
    }
    let root = "mod a; pub struct Root; pub fn f() { a::g() }";
    let circles = found(&[("lib.rs", root), ("a.rs", "pub fn g() -> crate::Root { crate::Root }")]);
    assert_eq!(circles, ["crate -> a (g, line 1), a -> crate (Root, line 1)"]);
}

#[test]
fn a_module_includes_its_children() {
    let circles = found(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod x; mod y; use crate::a::y::Y as C; pub struct A;"),
        ("a/x.rs", "use crate::b::B; pub struct X(B);"),
        ("a/y.rs", "pub struct Y;"),
        ("b.rs", "use crate::a::y::Y; pub struct B(Y);"),
    ]);
    assert_eq!(circles, ["a::x -> b (B, line 1), b -> a::y (Y, line 1)"]);
}

#[test]
fn macros_make_arrows_and_can_define_items() {
    let circles = found(&[
        ("lib.rs", "macro_rules! made { () => { $crate::a::A } } mod a;"),
        ("a.rs", "pub struct A; fn f() { made!() }"),
    ]);
    assert_eq!(circles, ["crate -> a (A, line 1), a -> crate (made, line 1)"]);
    let circles = found(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; ids! { Id }"),
        ("b.rs", "use crate::a::Id; pub struct B;"),
    ]);
    assert_eq!(circles.len(), 1);
}

#[test]
fn a_parent_may_declare_and_export_a_child_that_imports_it() {
    for files in [
        [
            ("lib.rs", "mod a; pub use a::A; pub struct Root;"),
            ("a.rs", "pub struct A(crate::Root);"),
        ],
        [("lib.rs", "mod a; use a::A; pub struct B(A);"), ("a.rs", "pub struct A;")],
        [
            ("lib.rs", "mod a; pub use a::{A, C}; mod b {}"),
            ("a.rs", "pub struct A; pub type C = A;"),
        ],
    ] {
        assert!(found(&files).is_empty(), "{files:?}");
    }
}

#[test]
fn arrows_in_one_direction_are_no_circle() {
    let files = [
        ("lib.rs", "mod a; mod b; pub(crate) use a::A;"),
        (
            "a.rs",
            "use std::fmt; use bytes::b; pub struct A; impl A { pub fn b(self) { self.b() } }",
        ),
        (
            "b.rs",
            "use crate::A; pub struct B { pub a: A } // crate::a, a string:\nconst S: &str = \"b::B\";",
        ),
    ];
    assert!(found(&files).is_empty());
}

#[test]
fn imports_of_tests_are_no_arrows() {
    for test in [
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] mod tests { use crate::b::B; use super::*; }",
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(all(test, unix))] pub fn f() -> crate::b::B { crate::b::B }",
        "#[cfg(test)] impl A { fn f() -> crate::b::B { crate::b::B } }",
    ] {
        let a = format!("{test} pub struct A;");
        let b = ("b.rs", "use crate::a::A; pub struct B(A);");
        let tests = ("a/tests.rs", "use crate::b::B;");
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", &*a), b, tests];
        assert!(found(&files).is_empty(), "{test}");
    }
    let a = "#[cfg(any(test, unix))] use crate::b::B; #[cfg(test)] use x::{y}; pub struct A;";
    let b = ("b.rs", "use crate::a::A; pub struct B(A);");
    assert_eq!(
        found(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), b]).len(),
        1,
        "the item is compiled outside of tests too"
    );
}
