//! Places that are misspelt, missing or not mounted: no command creates files there, and no volume
//! is split.

#[cfg(all(feature = "mysql", feature = "postgres", feature = "redis"))]
mod servers;

use std::path::Path;

use crate::running::{Done, Folder, Gateway};

/// Asserts that a command was refused with an error that contains these words.
#[track_caller]
fn refused(done: &Done, parts: &[&str]) {
    let line = done.log.lines().last().unwrap_or_default();
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.log);
    assert!(line.starts_with("ashlar: cannot "), "{line}");
    for part in parts {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
}

/// All files below the folder of a test.
fn files(folder: &Folder) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.path("")]);
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.to_str().expect("UTF-8").to_owned();
            if path.is_dir() {
                folders.push(name.clone());
            }
            found.push(name);
        }
    }
    found.sort();
    found
}

#[test]
fn commands_and_mounts_create_no_volume() {
    let folder = Folder::new();
    folder.write("policy.json", "{}");
    std::fs::create_dir(folder.path("mnt")).expect("a folder");
    let (policy, mnt) = (folder.path("policy.json"), folder.path("mnt"));
    let before = files(&folder);
    let (add, mount) = (["policy", "add", "some", &policy], ["mount", &mnt]);
    let mut commands: Vec<&[&str]> = vec![
        &["user", "add", "anna"],
        &["user", "list"],
        &["account", "list"],
        &add,
        &["bucket", "quota", "photos", "--bytes", "1GiB"],
        &["bucket", "list"],
        &["trash", "list", "photos"],
        &["fsck"],
        &["gc", "--dry-run"],
        &["dump", "-"],
    ];
    // Without FUSE a mount fails for another reason.
    if Path::new("/dev/fuse").exists() {
        commands.push(&mount);
    }
    for command in commands {
        let done = folder.run(command, &[]);
        refused(&done, &["there is no volume in the data directory ", "--data-dir"]);
        assert_eq!(files(&folder), before, "{command:?} made something");
    }
}

#[test]
fn a_misspelt_data_directory_or_metadata_store_is_refused_and_creates_nothing() {
    let folder = Folder::new();
    Gateway::start(&folder, &[], &[]).stop();
    let before = files(&folder);
    let other = format!("sqlite:{}", folder.path("other.db"));
    let (beside, deep) = (folder.path("dta"), folder.path("none/data"));
    // As variables, because a flag of the test harness would override them.
    let cases: [(&str, &str, &[&str]); 3] = [
        ("ASHLAR_DATA_DIR", &beside, &["does not exist", "data belongs to a volume", "--create"]),
        ("ASHLAR_DATA_DIR", &deep, &["create the data directory", "its parent directory"]),
        ("ASHLAR_META", &other, &["belongs to volume", "data/meta.db", "--create"]),
    ];
    for (variable, value, parts) in cases {
        refused(&folder.run(&["serve"], &[(variable, value)]), parts);
        assert_eq!(files(&folder), before, "{value} made something");
    }
    // With --create, each is created; but never over the blocks of another volume.
    let gateway = Gateway::start(&folder, &["--create"], &[("ASHLAR_DATA_DIR", &beside)]);
    gateway.stop();
    let created = folder.run(&["serve", "--create"], &[("ASHLAR_META", &other)]);
    refused(&created, &["the blocks belong to volume"]);
    // The first volume is still served.
    Gateway::start(&folder, &[], &[]).stop();
    // The data directory of one volume does not serve another one.
    let theirs = format!("sqlite:{beside}/meta.db");
    refused(
        &folder.run(&["serve"], &[("ASHLAR_META", &theirs)]),
        &["belongs to volume", "correct"],
    );
    let said = folder.run(&["user", "list"], &[("ASHLAR_META", &other)]);
    refused(&said, &["there is no volume in sqlite:", "data/meta.db"]);
}

#[test]
fn an_empty_folder_that_exists_needs_no_option() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("data")).expect("a folder");
    std::fs::create_dir(folder.path("more")).expect("a folder");
    Gateway::start(&folder, &[], &[]).stop();
    let more = folder.path("more");
    Gateway::start(&folder, &[], &[("ASHLAR_DATA_DIR", &more)]).stop();
}

#[test]
fn a_block_store_without_the_mark_is_refused_until_it_is_adopted() {
    let folder = Folder::new();
    let place = |name: &str| format!("file:{}", folder.path(name));
    let (right, wrong, empty) = (place("right"), place("wrong"), place("empty"));
    let gateway = Gateway::start(&folder, &["--blocks", &right], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    gateway.sign("PUT", "/bucket/key", &vec![b'x'; 300_000]).send_all().expect_status(200);
    gateway.stop();
    std::fs::create_dir(folder.path("empty")).expect("a folder");
    let commands: [&[&str]; 3] = [&["serve"], &["fsck"], &["gc", "--delete"]];
    for command in commands {
        let done = folder.run(&[command, &["--blocks", &wrong]].concat(), &[]);
        refused(&done, &["the directory does not exist", "--blocks"]);
        assert!(!Path::new(&folder.path("wrong")).exists(), "{command:?} made the folder");
        let done = folder.run(&[command, &["--blocks", &empty]].concat(), &[]);
        refused(&done, &["bears no mark", "--blocks"]);
        assert!(!Path::new(&folder.path("empty/volume")).exists(), "{command:?} marked the folder");
    }
    // A missing --blocks means the default.
    refused(&folder.run(&["serve"], &[]), &["the directory does not exist"]);

    // An empty place cannot be adopted: the volume's blocks are elsewhere.
    let adopting = folder.run(&["serve", "--blocks", &empty, "--adopt-blocks"], &[]);
    refused(&adopting, &["none of 1 blocks that files of the volume name", "restore the blocks"]);
    assert!(
        !Path::new(&folder.path("empty/volume")).exists(),
        "the refused start marked the folder"
    );

    // A restore copied the blocks, but not the mark.
    std::fs::rename(folder.path("right"), folder.path("restored")).expect("renamed");
    std::fs::remove_file(folder.path("restored/volume")).expect("it was marked");
    let restored = place("restored");
    refused(&folder.run(&["serve", "--blocks", &restored], &[]), &["--adopt-blocks"]);
    Gateway::start(&folder, &["--blocks", &restored, "--adopt-blocks"], &[]).stop();
    let gateway = Gateway::start(&folder, &["--blocks", &restored], &[]);
    let answer = gateway.sign("GET", "/bucket/key", &[]).send_all();
    assert!(answer.text.ends_with(&"x".repeat(300_000)), "the object is served");
    gateway.stop();
}

#[test]
fn an_unusable_mount_point_fails_the_start_before_a_volume_is_created() {
    let folder = Folder::new();
    folder.write("file", "not a folder");
    std::fs::create_dir(folder.path("full")).expect("a folder");
    folder.write("full/file", "x");
    let before = files(&folder);
    for (name, part) in [
        ("none", "create the directory"),
        ("file", "give an empty directory"),
        ("full", "not empty"),
    ] {
        let done = folder.run(&["serve", "--mount", &folder.path(name)], &[]);
        refused(&done, &["mount on", part]);
        assert_eq!(files(&folder), before, "{name}");
    }
}

#[test]
fn keys_with_escape_sequences_do_not_reach_the_terminal() {
    let folder = Folder::new();
    let gateway = Gateway::start(&folder, &[], &[]);
    gateway.sign("PUT", "/bucket", &[]).send_all().expect_status(200);
    let days = folder.run(&["bucket", "trash", "bucket", "--trash-days", "3"], &[]);
    assert_eq!(days.code, Some(0), "{}", days.log);
    let key = "/bucket/a%1B%5B2J%0Afake%09key";
    std::thread::sleep(std::time::Duration::from_millis(1500));
    gateway.sign("PUT", key, b"x").send_all().expect_status(200);
    gateway.sign("DELETE", key, &[]).send_all().expect_status(204);
    let listed = folder.run(&["trash", "list", "bucket"], &[]);
    assert_eq!(listed.code, Some(0), "{}", listed.log);
    assert_eq!(listed.out.lines().count(), 1, "{:?}", listed.out);
    assert!(listed.out.starts_with(r"$'a\x1b[2J\nfake\tkey'"), "{:?}", listed.out);
    let name = "a\u{1b}[2J\nfake\tkey";
    let restored = folder.run(&["trash", "restore", "bucket", name], &[]);
    assert_eq!(restored.out, "restored $'a\\x1b[2J\\nfake\\tkey'\n", "{}", restored.log);
    gateway.stop();
}
