use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;

use record::{HeartbeatRecord, Sequence, Timestamp};
use store::{CounterKey, Key, Plan, Verdict, Write as Change};
use tempfile::TempDir;

use super::*;
use crate::config::{BlocksPlace, DurabilityClass, Grace, KmsSettings, LogFormat};

/// The settings of a command over a database in a folder.
fn settings(folder: &TempDir, name: &str) -> VolumeSettings {
    VolumeSettings {
        data_dir: folder.path().join("data"),
        meta: MetaPlace::Sqlite(folder.path().join(name)),
        metadata_durability: DurabilityClass::Strict,
        deletion_grace: Grace::Auto,
        blocks: BlocksPlace::Memory,
        master_key_file: folder.path().join("master.key"),
        old_master_key_file: None,
        kms: KmsSettings::default(),
        log: "off".to_owned(),
        log_format: LogFormat::Text,
    }
}

async fn change(settings: &VolumeSettings, writes: Vec<Change>) {
    let meta = engines::meta(settings, Use::Serve).await.expect("a store");
    let verdicts = meta.commit(&[Plan { guards: Vec::new(), writes }]).await.expect("decided");
    assert_eq!(verdicts, [Verdict::Committed]);
    meta.close().await;
}

/// Makes a volume with a few records, and a session that is open.
async fn make_volume(settings: &VolumeSettings) {
    let volume = VolumeRecord {
        id: [0xab; 16],
        made: Timestamp(1_700_000_000_000_000_000),
        format: VolumeRecord::CURRENT,
        generation: 1,
        place: None,
        block_bytes: 4 << 20,
    };
    let (at, epoch, beat) = (key::volume(), key::epoch(), key::heartbeat(record::Nonce([7; 10])));
    let session = key::session(record::Nonce([7; 10]));
    let counter = CounterKey(Key::new(space::COUNTER, 1, b"\0"));
    let writes = vec![
        Change::Put(at.clone(), volume.encode(&at)),
        Change::Put(epoch.clone(), Sequence(1).encode(&epoch)),
        Change::Put(
            beat.clone(),
            HeartbeatRecord { count: 0, passed: 1, reads: String::new() }.encode(&beat),
        ),
        Change::Put(session, b"a session".as_slice().into()),
        Change::Set(counter, 12),
    ];
    change(settings, writes).await;
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let name = |entry: io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}

const TABLE: Printing = Printing { form: crate::table::OutputForm::Table };

fn dump_to(file: &Path, force: bool) -> Dump {
    Dump { file: file.to_owned(), force, printing: TABLE }
}

fn load_from(file: &Path) -> Load {
    Load { file: file.to_owned(), check: false, printing: TABLE }
}

async fn sentence(done: impl Future<Output = Result<Outcome, Problem>>) -> String {
    done.await.expect_err("a refusal").to_string()
}

#[tokio::test]
async fn a_dump_is_complete_private_and_replaces_files_only_with_force() {
    let folder = TempDir::new().expect("a folder");
    let volume = settings(&folder, "meta.db");
    make_volume(&volume).await;
    let file = folder.path().join("volume.dump");
    let before = names(&folder);
    dump(volume.clone(), dump_to(&file, false)).await.expect("dumped");
    let after = names(&folder);
    let fresh: Vec<_> = after.iter().filter(|name| !before.contains(name)).collect();
    assert_eq!(fresh, ["volume.dump"], "no file beside it is left");
    let mode = file.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let first = std::fs::read(&file).expect("a dump");

    change(&volume, vec![Change::Delete(key::epoch())]).await;
    let refused = sentence(dump(volume.clone(), dump_to(&file, false))).await;
    assert!(refused.contains("the file exists; "), "{refused}");
    assert!(refused.ends_with("replace it with --force"), "{refused}");
    assert_eq!(std::fs::read(&file).expect("a dump"), first, "it was left alone");
    dump(volume.clone(), dump_to(&file, true)).await.expect("dumped");
    assert_ne!(std::fs::read(&file).expect("a dump"), first, "it was replaced");
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    assert_eq!(names(&folder), after);

    let nowhere = folder.path().join("nowhere/volume.dump");
    let refused = sentence(dump(volume, dump_to(&nowhere, false))).await;
    assert!(refused.contains("the directory must exist and be writable"), "{refused}");
}

#[tokio::test]
async fn a_file_that_appears_during_the_dump_is_not_replaced() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("volume.dump");
    let DumpOutput::File { part, .. } = DumpOutput::open(&dump_to(&file, false)).expect("a place")
    else {
        panic!("a file was named")
    };
    std::fs::write(&file, "somebody else's").expect("written");
    let refused = keep(part, &file, false).expect_err("it is there").to_string();
    assert!(refused.ends_with(REPLACE), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "somebody else's");
    assert_eq!(names(&folder), ["volume.dump"], "and nothing is left beside it");
}

#[tokio::test]
async fn a_loaded_store_dumps_the_same_bytes() {
    let folder = TempDir::new().expect("a folder");
    let (old, new) = (settings(&folder, "old.db"), settings(&folder, "new.db"));
    make_volume(&old).await;
    let [first, second] = ["first.dump", "second.dump"].map(|name| folder.path().join(name));
    // While a gateway serves it.
    let served = engines::meta(&old, Use::Serve).await.expect("a store");
    dump(old, dump_to(&first, false)).await.expect("dumped");
    served.close().await;
    load(new.clone(), Load { file: first.clone(), check: true, printing: TABLE })
        .await
        .expect("whole");
    let MetaPlace::Sqlite(path) = &new.meta else { panic!("a file") };
    assert!(!path.exists(), "a check touches no store");
    load(new.clone(), load_from(&first)).await.expect("loaded");
    dump(new.clone(), dump_to(&second, false)).await.expect("dumped");
    let (first_bytes, second_bytes) = (std::fs::read(&first), std::fs::read(&second));
    assert_eq!(first_bytes.expect("a dump"), second_bytes.expect("a dump"));

    let refused = sentence(load(new, load_from(&first))).await;
    assert!(refused.contains("the store is not empty: it holds V/0/"), "{refused}");
    assert!(refused.contains("new.db-…, or give another file"), "what to do: {refused}");
}

#[tokio::test]
async fn a_store_that_is_being_served_is_not_loaded() {
    let folder = TempDir::new().expect("a folder");
    let (old, new) = (settings(&folder, "old.db"), settings(&folder, "new.db"));
    make_volume(&old).await;
    let file = folder.path().join("volume.dump");
    dump(old, dump_to(&file, false)).await.expect("dumped");
    let served = engines::meta(&new, Use::Serve).await.expect("a store");
    let refused = sentence(load(new, load_from(&file))).await;
    assert!(refused.contains("another process serves it already"), "{refused}");
    served.close().await;
}

#[tokio::test]
async fn an_interrupted_load_is_reported_and_leaves_no_volume() {
    let folder = TempDir::new().expect("a folder");
    let (old, new) = (settings(&folder, "old.db"), settings(&folder, "new.db"));
    make_volume(&old).await;
    let file = folder.path().join("volume.dump");
    dump(old, dump_to(&file, false)).await.expect("dumped");
    // The state after the first commit of a load. The tests of the `dump` crate cut loads at each
    // commit.
    let claimed = [&b"ashlar load has not finished "[..], &[1; 16]].concat();
    change(&new, vec![Change::Put(key::volume(), claimed.into())]).await;
    for refused in [
        sentence(load(new.clone(), load_from(&file))).await,
        sentence(dump(new.clone(), dump_to(&folder.path().join("no.dump"), false))).await,
    ] {
        assert!(refused.contains("another load has begun to fill the store"), "{refused}");
        assert!(refused.contains("remove "), "what to do: {refused}");
    }
    assert!(!names(&folder).iter().any(|name| name.starts_with("no.dump")));
}

#[tokio::test]
async fn damaged_dumps_and_places_without_a_volume_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let (old, new) = (settings(&folder, "old.db"), settings(&folder, "new.db"));
    let file = folder.path().join("volume.dump");
    let refused = sentence(dump(old.clone(), dump_to(&file, false))).await;
    assert!(refused.contains("there is no volume in sqlite:"), "{refused}");
    let memory = VolumeSettings { meta: MetaPlace::Memory, ..old.clone() };
    let refused = sentence(dump(memory.clone(), dump_to(&file, false))).await;
    assert!(refused.contains("there is no volume in memory:"), "{refused}");
    assert_eq!(names(&folder), [""; 0], "nothing was made");

    make_volume(&old).await;
    dump(old, dump_to(&file, false)).await.expect("dumped");
    let refused = sentence(load(memory, load_from(&file))).await;
    assert!(refused.contains("memory: ends with this command"), "{refused}");
    let whole = std::fs::read(&file).expect("a dump");
    let cut = folder.path().join("cut.dump");
    std::fs::write(&cut, &whole[..whole.len() - 1]).expect("written");
    for command in [load_from(&cut), Load { file: cut.clone(), check: true, printing: TABLE }] {
        let refused = sentence(load(new.clone(), command)).await;
        assert!(refused.contains("a dump without its trailer is not complete"), "{refused}");
    }
    let meta = engines::meta(&new, Use::Serve).await.expect("a store");
    let mut all = meta.snapshot().await.expect("a snapshot");
    assert!(all.records(1).await.expect("a page").is_empty(), "nothing was written");
    drop(all);
    meta.close().await;
}

#[test]
fn a_pipe_is_copied_to_a_file_before_it_is_loaded() {
    let folder = TempDir::new().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&pipe, "twice").expect("written"));
        let mut input = input(&pipe).expect("opened");
        for _ in 0..2 {
            let mut text = String::new();
            input.read_to_string(&mut text).expect("read");
            assert_eq!(text, "twice");
            input.rewind().expect("back at its beginning");
        }
    });
}
