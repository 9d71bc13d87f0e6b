use super::*;

fn name(directory: u64, name: &str) -> NodeName {
    NodeName { directory: Ino(directory), name: name.as_bytes().to_vec() }
}

#[test]
fn reach_covers_the_names_on_which_a_request_depends() {
    let (created, ino) = (name(7, "f"), Some(Ino(9)));
    let covered = [
        Reach::Name(Ino(7), b"f"),
        Reach::Directory(Ino(7)),
        Reach::Node(Ino(7)),
        Reach::Node(Ino(9)),
        Reach::All,
    ];
    for reach in covered {
        assert!(reach.covers(&created, ino), "{reach:?}");
    }
    let others = [
        Reach::Nothing,
        Reach::Name(Ino(7), b"g"),
        Reach::Name(Ino(8), b"f"),
        Reach::Directory(Ino(9)),
        Reach::Node(Ino(8)),
    ];
    for reach in others {
        assert!(!reach.covers(&created, ino), "{reach:?}");
    }
}

#[test]
fn no_place_is_given_while_a_request_changes_names() {
    let creations = Creations::default();
    let (files, change) = creations.begin(Reach::All);
    assert!(files.is_empty());
    assert!(creations.reserve(&name(7, "f")).is_none());
    drop(change);
    assert!(creations.reserve(&name(7, "f")).is_some());
}

#[test]
fn name_has_one_place_which_is_free_again_without_a_decision() {
    let creations = Creations::default();
    let place = creations.reserve(&name(7, "f"));
    assert!(creations.reserve(&name(7, "f")).is_none());
    assert!(creations.reserve(&name(7, "g")).is_some());
    drop(place);
    assert!(creations.reserve(&name(7, "f")).is_some());
    assert!(creations.is_empty());
}

#[test]
fn table_of_creations_is_bounded() {
    let creations = Creations::default();
    let names = || (0..CREATIONS_MAX).map(|index| name(7, &index.to_string()));
    let places: Vec<_> = names().map(|name| creations.reserve(&name).unwrap()).collect();
    assert!(creations.reserve(&name(7, "f")).is_none());
    drop(places);
    assert!(creations.reserve(&name(7, "f")).is_some());
}
