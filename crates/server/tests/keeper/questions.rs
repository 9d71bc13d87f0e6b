//! `ashlar info` and `ashlar warmup` on a mount, and its stats file.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Command, Output};

use crate::kept::{Kept, can_mount, make, program, redis};

const MEGABYTE: usize = 1 << 20;

fn run(arguments: &[&str], paths: &[&Path]) -> Output {
    program().args(arguments).args(paths).output().unwrap()
}

#[track_caller]
fn told(arguments: &[&str], paths: &[&Path]) -> String {
    let done = run(arguments, paths);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[track_caller]
fn refused(arguments: &[&str], path: &Path, why: &str) {
    let done = run(arguments, &[path]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains(why), "{said}");
}

#[test]
fn info_reports_the_places_of_content_on_a_mount() {
    if !can_mount() {
        return;
    }
    let kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    fs::write(kept.path("bucket/small"), b"hello\n").unwrap();
    fs::write(kept.path("bucket/large"), vec![5; 20 * MEGABYTE]).unwrap();
    let small = told(&["info"], &[&kept.path("bucket/small")]);
    for line in [
        "kind           file\n",
        "size           6 bytes\n",
        "content        in its record\n",
        "etag           b1946ac92492d2347c6235b4d2611184\n",
        "open here      0 times\n",
    ] {
        assert!(small.contains(line), "{line:?} in {small}");
    }
    let mut open = make(&kept.path("bucket/open"));
    open.write_all(b"not yet").unwrap();
    let paths = ["bucket/large", "bucket/open", "bucket"].map(|name| kept.path(name));
    let lines = told(&["info", "--json"], &[&paths[0], &paths[1], &paths[2]]);
    let objects: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects[0]["content"], "blocks");
    assert_eq!(objects[0]["stored_bytes"], 20 * MEGABYTE);
    assert_eq!(objects[0]["in_blocks"].as_array().unwrap().len() as u64, objects[0]["blocks"]);
    assert_eq!((&objects[1]["open_here"], &objects[1]["size_here"]), (&1.into(), &7.into()));
    assert_eq!(objects[2]["kind"], "directory");
    refused(&["info"], kept.folder.path(), "it is not on a mount of Ashlar");
    refused(&["info"], &kept.path("bucket/none"), "No such file");
    let listed = Command::new("getfattr").args(["-d", "-m", "-"]).arg(&paths[0]).output();
    assert!(!listed.is_ok_and(|listed| String::from_utf8_lossy(&listed.stdout).contains("info")));
}

#[test]
fn info_looks_up_a_key_in_the_volume() {
    let (true, Some(redis)) = (can_mount(), redis()) else { return };
    let url = redis.url();
    let kept = Kept::new(Some(&url));
    fs::create_dir(kept.path("bucket")).unwrap();
    fs::write(kept.path("bucket/file"), b"hello\n").unwrap();
    let data = kept.folder.path().join("data");
    let arguments = ["--meta", &url, "--data-dir", data.to_str().unwrap(), "info"];
    let beside = told(&arguments, &[Path::new("bucket/file")]);
    assert!(beside.contains("size           6 bytes\n"), "{beside}");
    refused(&arguments, Path::new("bucket/none"), "there is none of this name");
}

/// The block store's directory is renamed, so reads succeed only from the cache.
#[test]
fn warmed_up_files_are_read_without_the_block_store() {
    if !can_mount() {
        return;
    }
    let kept = Kept::new(None);
    fs::create_dir_all(kept.path("bucket/below")).unwrap();
    let content = vec![6; 12 * MEGABYTE];
    fs::write(kept.path("bucket/below/large"), &content).unwrap();
    fs::write(kept.path("bucket/small"), &content[..MEGABYTE / 2]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", kept.path("bucket/link")).unwrap();
    // The new mount has an empty cache.
    let kept = kept.anew();
    let said = told(&["warmup"], &[&kept.path("bucket")]);
    assert!(said.starts_with("read 2 files, 12.50 MiB, in "), "{said}");
    let data = kept.folder.path().join("data");
    fs::rename(data.join("blocks"), data.join("away")).unwrap();
    assert!(fs::read(kept.path("bucket/below/large")).unwrap() == content);
    assert!(fs::read(kept.path("bucket/small")).unwrap() == content[..MEGABYTE / 2]);
    fs::rename(data.join("away"), data.join("blocks")).unwrap();
    refused(&["warmup"], kept.folder.path(), "mount the volume first");
    refused(&["warmup"], &kept.path("bucket/none"), "No such file");
    drop(File::open(kept.path("bucket/small")).unwrap());
}

#[test]
fn the_stats_file_has_the_metrics_and_is_not_listed() {
    if !can_mount() {
        return;
    }
    let mut kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    let stats = kept.path(".ashlar/stats");
    let text = fs::read_to_string(&stats).unwrap();
    assert!(text.contains("ashlar_metadata_round_trips_total{operation=\"commit\"}"), "{text}");
    let listed = |folder: &Path| -> Vec<_> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(listed(&kept.path("")), ["bucket"]);
    assert_eq!(listed(&kept.path(".ashlar")), ["stats"]);
    assert_eq!(fs::metadata(kept.path(".ashlar/other")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(fs::metadata(kept.path("bucket/.ashlar")).is_err(), "at the root alone");
    assert!(fs::write(&stats, b"x").is_err());
    assert!(fs::remove_file(&stats).is_err());
    assert!(fs::rename(kept.path("bucket"), kept.path(".ashlar/bucket")).is_err());
    // A handle of the previous worker has no text any more; a new handle has.
    let mut open = File::open(&stats).unwrap();
    kept.kill_worker();
    assert!(open.read_to_end(&mut Vec::new()).is_err());
    assert!(fs::read_to_string(&stats).unwrap().contains("ashlar_"));

    fs::create_dir_all(kept.path("bucket/.ashlar")).unwrap();
    fs::write(kept.path("bucket/.ashlar/mine"), b"x").unwrap();
    let kept = kept.anew_with(&["--subdir", "bucket"]);
    assert_eq!(listed(&kept.path(".ashlar")), ["mine"], "what the volume has is found");
}
