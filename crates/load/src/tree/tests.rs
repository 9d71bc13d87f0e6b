use super::*;

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_tree_has_the_requested_files_and_sizes() {
    let parent = tempfile::tempdir().expect("a folder");
    let tree = parent.path().join("tree");
    let bytes = plant(&tree, 120, 7).expect("it is planted");
    let sizes: Vec<u64> =
        files_below(&tree).iter().map(|path| path.metadata().expect("a file").len()).collect();
    assert_eq!(sizes.len(), 120);
    assert_eq!(sizes.iter().sum::<u64>(), bytes);
    assert!(sizes.iter().all(|size| (1 << 10..=16 << 10).contains(size)));
    assert_eq!(files_below(&package_folder(&tree, 1)).len(), 50);
    assert_eq!(files_below(&package_folder(&tree, 2)).len(), 20);
}

#[test]
fn the_same_seed_plants_the_same_tree() {
    let parent = tempfile::tempdir().expect("a folder");
    let [one, other] = ["one", "other"].map(|name| parent.path().join(name));
    plant(&one, 60, 7).expect("it is planted");
    plant(&other, 60, 7).expect("it is planted");
    for path in files_below(&one) {
        let twin = other.join(path.strip_prefix(&one).expect("it is below"));
        assert!(fs::read(&path).expect("one") == fs::read(&twin).expect("the other"));
    }
}

#[test]
fn directories_have_equally_many_files() {
    let parent = tempfile::tempdir().expect("a folder");
    let tree = parent.path().join("tree");
    let bytes = plant_directories(&tree, 3, 20, 7).expect("it is planted");
    let of = |name: &str| files_below(&tree.join(name));
    let names = ["directory-000", "directory-001", "directory-002"];
    assert_eq!(names.map(|name| of(name).len()), [20; 3]);
    let sizes = files_below(&tree).iter().map(|it| it.metadata().expect("a file").len()).sum();
    assert_eq!((bytes, files_below(&tree).len()), (sizes, 60));
}
