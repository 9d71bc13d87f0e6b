use super::*;
use crate::config::{Common, File};

fn settings(data_dir: &Path, meta: Option<&str>) -> VolumeSettings {
    let common = Common {
        data_dir: Some(data_dir.to_owned()),
        meta: meta.map(str::to_owned),
        ..Common::default()
    };
    common.settle(&File::default()).expect("settings")
}

fn refused(data_dir: &Path, intent: Intent) -> Option<String> {
    let place = Place::read(data_dir).expect("readable");
    refusal(&settings(data_dir, None), intent, place.as_ref()).map(|problem| problem.to_string())
}

const SERVE: Intent = Intent::Serve { create: false };

fn remembered(data_dir: &Path) {
    let place = Place { volume: "ab".repeat(16), meta: "redis://db/1".to_owned() };
    place.write(data_dir).expect("written");
    assert_eq!(Place::read(data_dir).expect("readable"), Some(place));
}

#[test]
fn a_gateway_creates_a_volume_only_without_signs_of_another_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    assert_eq!(refused(Path::new(DATA_DIR_DEFAULT), SERVE), None, "the default place");
    assert_eq!(refused(&one, SERVE), None, "it has no siblings");
    fs::create_dir(&one).expect("a folder");
    assert_eq!(refused(&one, SERVE), None, "an empty folder");
    remembered(&one);
    let said = refused(&one, SERVE).expect("it has a volume");
    assert!(said.contains(&"ab".repeat(16)) && said.contains("redis://db/1"), "{said}");
    assert!(said.contains("--create"), "{said}");
    let said = refused(&two, SERVE).expect("its neighbour has a volume");
    assert!(said.contains("its sibling") && said.contains("--create"), "{said}");
    let deep = folder.path().join("none/two");
    let said = refused(&deep, SERVE).expect("its folder is missing");
    assert!(said.starts_with("cannot create the data directory "), "{said}");
    fs::create_dir(&two).expect("a folder");
    assert_eq!(refused(&two, SERVE), None, "an existing empty folder");
    for dir in [&one, &two, &deep] {
        assert_eq!(refused(dir, Intent::Serve { create: true }), None, "asked for");
        assert!(refused(dir, Intent::Mount).is_some(), "a mount makes none");
    }
}

#[test]
fn no_volume_is_created_among_the_blocks_of_another_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let blocks = folder.path().join("blocks");
    fs::create_dir(&blocks).expect("a folder");
    let mark = format!("ashlar volume {0} place {0} format 1\n", "00".repeat(16));
    fs::write(blocks.join("volume"), mark).expect("a mark");
    for dir in [&blocks, &blocks.join("below")] {
        let said = refused(dir, SERVE).expect("it belongs to the blocks");
        assert!(said.contains("correct --data-dir"), "{said}");
    }
    assert_eq!(refused(folder.path(), SERVE), None, "the mark is not above it");
}

#[tokio::test]
async fn a_refused_start_creates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("dir");
    let absent = settings(&dir, None);
    admit(&absent, Intent::Mount).await.expect_err("no volume");
    check_present(&absent, "list users").await.expect_err("no volume");
    assert!(!dir.exists(), "nothing was created");
    fs::create_dir(&dir).expect("a folder");
    remembered(&dir);
    admit(&absent, SERVE).await.expect_err("its volume is not there");
    let names: Vec<_> = fs::read_dir(&dir).expect("a folder").collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_place_file_without_a_volume_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(PLACE_FILE), "meta = x\n").expect("written");
    let problem = Place::read(folder.path()).expect_err("it names no volume");
    assert!(problem.to_string().contains("remove the file"), "{problem}");
    // The file may name a volume here, so the error must not advise the operator to remove it.
    fs::remove_file(folder.path().join(PLACE_FILE)).expect("removed");
    fs::create_dir(folder.path().join(PLACE_FILE))
        .expect("a folder, which cannot be read as a file");
    let problem = Place::read(folder.path()).expect_err("it cannot be read");
    assert!(!problem.to_string().contains("remove the file"), "{problem}");
}
