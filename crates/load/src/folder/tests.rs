use super::*;

const LOAD: FileLoad =
    FileLoad { file_bytes: 3 << 20, clients: 2, time: Duration::from_millis(50) };

fn folder(parent: &Path) -> Folder {
    Folder::make(&parent.join("load"), 7).expect("a folder")
}

#[test]
fn every_verb_finds_what_the_ones_before_it_made() {
    let parent = tempfile::tempdir().expect("a folder");
    let (mut folder, gauge) = (folder(parent.path()), Gauge::default());
    for verb in FileVerb::ALL {
        let round = folder.round(verb, LOAD, &gauge).expect("it works");
        assert!(round.requests > 0 && round.took > Duration::ZERO, "{verb}: {round:?}");
        let bytes = match verb {
            FileVerb::Write | FileVerb::Read => 1 << 20,
            FileVerb::RandomRead | FileVerb::Create => 4096,
            _ => 0,
        };
        assert_eq!(round.bytes, round.requests * bytes, "{verb}");
    }
    folder.clean().expect("it goes");
    assert!(!parent.path().join("load").exists());
}

#[test]
fn a_file_that_changed_meanwhile_is_an_error() {
    let parent = tempfile::tempdir().expect("a folder");
    let (mut folder, gauge) = (folder(parent.path()), Gauge::default());
    folder.round(FileVerb::Write, LOAD, &gauge).expect("it works");
    let file = File::options().write(true).open(folder.large()).expect("a file");
    file.write_all_at(&[9; 8], 1 << 20).expect("it is written");
    let found = folder.round(FileVerb::Read, LOAD, &gauge).expect_err("it is another file");
    assert!(found.to_string().contains("differs from the written one"), "{found}");
}

#[test]
fn an_existing_folder_is_refused() {
    let parent = tempfile::tempdir().expect("a folder");
    assert!(Folder::make(parent.path(), 7).is_err());
}
