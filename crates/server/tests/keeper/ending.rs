//! The start, the replacement and the end of a mount.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::kept::{Kept, can_mount, eventually, is_mounted, make, make_volume, program, signal};

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn ending_a_mount_makes_all_writes_durable() {
    if !can_mount() {
        return;
    }
    let mut kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    let mut file = make(&kept.path("bucket/file"));
    file.write_all(b"before").unwrap();
    drop(file);
    kept.kill_worker();
    let kept = kept.anew();
    assert_eq!(fs::read(kept.path("bucket/file")).unwrap(), b"before");
}

/// Changes a file in a map, does not sync it, and waits.
const MAPS: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 8192)
pages = mmap.mmap(fd, 8192)
pages[4096:4104] = b'in a map'
print('changed', flush=True)
sys.stdin.readline()
";

#[test]
fn ending_a_mount_keeps_changes_of_memory_maps() {
    if !can_mount() {
        return;
    }
    let mut kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", MAPS]).arg(kept.path("bucket/map"));
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "changed\n");
    assert!(kept.end().success(), "{}", kept.log());
    program.kill().unwrap();
    program.wait().unwrap();
    let kept = kept.anew();
    let bytes = fs::read(kept.path("bucket/map")).unwrap();
    assert_eq!((bytes.len(), &bytes[4096..4104]), (8192, &b"in a map"[..]));
}

#[test]
fn a_signal_between_two_workers_ends_the_mount() {
    if !can_mount() {
        return;
    }
    let mut kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    let mut file = make(&kept.path("bucket/file"));
    file.write_all(b"written").unwrap();
    signal(kept.worker().unwrap(), Signal::KILL);
    assert!(kept.end().success(), "{}", kept.log());
    assert!(!kept.is_mounted());
    let kept = kept.anew();
    assert_eq!(fs::read(kept.path("bucket/file")).unwrap(), b"written");
}

#[test]
fn replace_continues_open_files_of_programs() {
    if !can_mount() {
        return;
    }
    let mut kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    let end = AtomicBool::new(false);
    let (keeper, first) = (kept.keeper(), kept.worker());
    let path = kept.path("bucket/file");
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut rounds = 0_u32;
            let mut file = make(&path);
            while !end.load(Ordering::Relaxed) {
                writeln!(file, "{rounds}").expect("write");
                if rounds.is_multiple_of(50) {
                    file.sync_all().expect("fsync");
                }
                rounds += 1;
            }
            rounds
        });
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(300));
            let replace = ["mount", "--replace"];
            let replaced = program().args(replace).arg(kept.path("")).output().unwrap();
            assert!(replaced.status.success(), "{}", said(&replaced));
        }
        end.store(true, Ordering::Relaxed);
        let rounds = writing.join().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), rounds as usize);
    });
    assert_eq!(kept.keeper(), keeper);
    assert_ne!(kept.worker(), first);
    assert!(kept.end().success(), "{}", kept.log());
    assert!(!kept.log().contains("has failed"), "no worker was killed: {}", kept.log());
}

#[test]
fn a_mount_goes_to_the_background_and_ends_with_umount() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (at, data) = (folder.path().join("mount"), folder.path().join("data"));
    fs::create_dir(&at).unwrap();
    fs::write(at.join("in the way"), "").unwrap();
    make_volume(&data, None, &[]);
    let mount = || program().arg("mount").arg(&at).arg("--data-dir").arg(&data).output().unwrap();
    let refused = mount();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("not empty"), "{}", said(&refused));
    fs::remove_file(at.join("in the way")).unwrap();
    let mounted = mount();
    assert!(mounted.status.success(), "{}", said(&mounted));
    assert!(is_mounted(&at), "it is there when the command ends");
    fs::create_dir(at.join("bucket")).unwrap();
    fs::write(at.join("bucket/file"), "content").unwrap();
    let umount = program().arg("umount").arg(&at).output().unwrap();
    assert!(umount.status.success(), "{}", said(&umount));
    assert!(!is_mounted(&at));
    // SQLite allows the next mount only after the previous process has closed the volume.
    eventually("the processes end", || {
        let found = Command::new("pgrep").args(["-f", "--"]).arg(&at).output().unwrap();
        !found.status.success()
    });
    let again = mount();
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(fs::read(at.join("bucket/file")).unwrap(), b"content");
    assert!(program().arg("umount").arg(&at).status().unwrap().success());
}

#[test]
fn mount_8_mounts_an_fstab_entry() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [at, link, config] =
        ["mount", "mount.ashlar", "ashlar.toml"].map(|at| folder.path().join(at));
    fs::create_dir(&at).unwrap();
    symlink(env!("CARGO_BIN_EXE_ashlar"), &link).unwrap();
    let data = folder.path().join("data");
    fs::write(&config, format!("data_dir = {data:?}\n")).unwrap();
    let mount = |options: &str| {
        let mut command = Command::new(&link);
        command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").stdin(Stdio::null());
        command.arg(&config).arg(&at).args(["-o", options]).output().unwrap()
    };
    make_volume(&data, None, &[]);
    let refused = mount("rw,no-such-option");
    assert!(!refused.status.success() && said(&refused).contains("--no-such-option"));
    let mounted = mount("rw,nofail,_netdev,allow_other,write-memory=64MiB");
    assert!(mounted.status.success(), "{}", said(&mounted));
    fs::create_dir(at.join("bucket")).unwrap();
    assert!(data.is_dir(), "it was configured by the file");
    assert!(program().arg("umount").arg(&at).status().unwrap().success());
}
