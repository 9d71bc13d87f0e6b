use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn attach_adds_what_is_missing_once() {
    let (all, new) = changed(names(&["a", "b"]), &names(&["b", "c", "c"]), Association::Attach);
    assert_eq!((all, new), (names(&["a", "b", "c"]), names(&["c"])));
}

#[test]
fn detach_removes_what_is_there() {
    let (all, gone) = changed(names(&["a", "b"]), &names(&["b", "c"]), Association::Detach);
    assert_eq!((all, gone), (names(&["a"]), names(&["b"])));
}
