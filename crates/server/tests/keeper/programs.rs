//! Programs that work on a mount while its workers are killed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use databases::Database;
use rustix::fs::{FlockOperation, flock};

use crate::kept::{Kept, can_mount, eventually, make, redis};

/// The number of kills while programs work.
const KILLS: usize = 6;

/// Runs a test on each available engine.
fn on_each_engine(test: impl Fn(Kept)) {
    if !can_mount() {
        return;
    }
    test(Kept::new(None));
    if let Some(redis) = redis() {
        test(Kept::new(Some(&redis.url())));
    }
}

/// Creates, renames and removes names. Each step fails if the previous one was executed twice or
/// not at all.
fn names(bucket: &Path, end: &AtomicBool) -> u32 {
    let mut rounds = 0;
    while !end.load(Ordering::Relaxed) {
        let (made, moved) = (bucket.join(format!("d{rounds}")), bucket.join("moved"));
        fs::create_dir(&made).expect("mkdir");
        fs::rename(&made, &moved).expect("rename");
        symlink("there", moved.join("link")).expect("symlink");
        fs::remove_file(moved.join("link")).expect("unlink");
        fs::remove_dir(&moved).expect("rmdir");
        rounds += 1;
    }
    rounds
}

/// Creates, writes, links, changes and removes files.
fn files(bucket: &Path, end: &AtomicBool) -> u32 {
    let mut rounds = 0;
    while !end.load(Ordering::Relaxed) {
        let (name, other) = (bucket.join(format!("f{rounds}")), bucket.join("other"));
        let mut file = make(&name);
        file.write_all(b"first ").expect("write");
        file.write_all(&[7; 6_000]).expect("write");
        drop(file);
        let content = fs::read(&name).expect("read");
        assert!(content.starts_with(b"first ") && content.len() == 6_006);
        fs::hard_link(&name, &other).expect("link");
        fs::set_permissions(&name, fs::Permissions::from_mode(0o600)).expect("chmod");
        fs::remove_file(&name).expect("unlink");
        assert_eq!(fs::metadata(&other).expect("stat").mode() & 0o777, 0o600);
        fs::remove_file(&other).expect("unlink");
        rounds += 1;
    }
    rounds
}

/// Appends to a file, syncs it sometimes, and closes it at the end.
fn appends(bucket: &Path, end: &AtomicBool) -> u32 {
    let path = bucket.join("appended");
    let mut file = fs::OpenOptions::new().append(true).create(true).open(&path).expect("open");
    let mut rounds = 0;
    while !end.load(Ordering::Relaxed) {
        file.write_all(format!("{rounds:08}\n").as_bytes()).expect("append");
        if rounds % 10 == 0 {
            file.sync_data().expect("fdatasync");
        }
        rounds += 1;
    }
    drop(file);
    let lines = BufReader::new(fs::File::open(&path).expect("open")).lines();
    let numbers: Vec<u32> = lines.map(|line| line.unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (0..rounds).collect::<Vec<_>>(), "each line is there once");
    rounds
}

/// Checks that an open unlinked file keeps its content.
fn nameless(bucket: &Path, end: &AtomicBool) -> u32 {
    let mut rounds = 0;
    while !end.load(Ordering::Relaxed) {
        let path = bucket.join("nameless");
        let file = make(&path);
        file.write_all_at(b"kept", 10_000).expect("write");
        fs::remove_file(&path).expect("unlink");
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(5));
            let mut bytes = [0; 4];
            file.read_exact_at(&mut bytes, 10_000).expect("read");
            assert_eq!(&bytes, b"kept");
        }
        rounds += 1;
    }
    rounds
}

fn sh(folder: &Path, script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(folder).stdin(Stdio::null());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("HOME", "/nonexistent");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

const GIT: &str = "git init -q repository && cd repository
git config user.name tester && git config user.email tester@example.org
for n in 1 2 3 4 5; do
  echo $n > file-$n && git add . && git commit -q -m commit-$n
done
git fsck --strict && test -z \"$(git status --porcelain)\" && git log --oneline | wc -l";

const TAR: &str = "mkdir tree
for n in $(seq 80); do head -c $((n * 97)) /dev/urandom > tree/$n; done
for n in 1 2; do
  tar -cf all.tar tree && mkdir out-$n && tar -xf all.tar -C out-$n && diff -r tree out-$n/tree
done; echo same";

#[test]
fn programs_continue_while_workers_are_killed() {
    on_each_engine(|mut kept| {
        let bucket = kept.path("bucket");
        fs::create_dir(&bucket).unwrap();
        let end = AtomicBool::new(false);
        let (git, tar) = (sh(&bucket, GIT), sh(&bucket, TAR));
        let rounds = thread::scope(|scope| {
            let work: [fn(&Path, &AtomicBool) -> u32; 4] = [names, files, appends, nameless];
            let work = work.map(|work| {
                let (bucket, end) = (&bucket, &end);
                scope.spawn(move || work(bucket, end))
            });
            for kill in 0..KILLS {
                // At varying intervals.
                thread::sleep(Duration::from_millis(300 + 170 * (kill as u64 % 5)));
                kept.kill_worker();
            }
            let done = [git, tar].map(|child| child.wait_with_output().unwrap());
            end.store(true, Ordering::Relaxed);
            for done in done {
                let said = String::from_utf8_lossy(&done.stdout).into_owned();
                let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(done.status.success(), "{said}\n{complaint}");
            }
            work.map(|work| work.join().expect("a program works on"))
        });
        assert_eq!(kept.workers(), KILLS + 1, "each kill was one");
        assert!(rounds.iter().all(|rounds| *rounds > 0), "{rounds:?}");
        eprintln!("{KILLS} kills; rounds of each program: {rounds:?}");
        // The content is durable: another mount sees it.
        let kept = kept.anew();
        assert!(!kept.log().contains("is lost"), "nothing was lost");
    });
}

#[test]
fn unsynced_data_survives_a_killed_worker() {
    on_each_engine(|mut kept| {
        let bucket = kept.path("bucket");
        fs::create_dir(&bucket).unwrap();
        let path = bucket.join("written");
        let mut file = make(&path);
        let bytes: Vec<u8> =
            (0..3_000_000_u32).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
        file.write_all(&bytes).unwrap();
        kept.kill_worker();
        file.write_all(b"and more").unwrap();
        kept.kill_worker();
        let mut read = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut read).unwrap();
        assert!(read == [&bytes[..], b"and more"].concat(), "it is as it was written");
        file.sync_all().expect("nothing was lost");
        drop(file);
        assert!(fs::read(&path).unwrap() == read);
        assert_eq!(kept.workers(), 3);
    });
}

/// A program that waits for a lock of fcntl(2), prints a line when it has it, and releases it at
/// the end of its standard input.
const LOCKER: &str = "
import fcntl, sys
file = open(sys.argv[1], 'r+')
print('opened', flush=True)
fcntl.lockf(file, fcntl.LOCK_EX)
print('locked', flush=True)
sys.stdin.read()
";

fn locker(path: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new("python3");
    command.args(["-c", LOCKER]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

fn says(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn locks_survive_a_killed_worker() {
    on_each_engine(|mut kept| {
        let bucket = kept.path("bucket");
        fs::create_dir(&bucket).unwrap();
        let path = bucket.join("locked");
        let whole = make(&path);
        flock(&whole, FlockOperation::LockExclusive).unwrap();
        let (mut holder, mut holder_says) = locker(&path);
        assert_eq!(
            (says(&mut holder_says), says(&mut holder_says)),
            ("opened".into(), "locked".into())
        );
        let (mut waiter, mut waiter_says) = locker(&path);
        assert_eq!(says(&mut waiter_says), "opened");
        thread::sleep(Duration::from_millis(300));
        kept.kill_worker();
        let other = fs::File::open(&path).unwrap();
        let again = flock(&other, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(again, Err(rustix::io::Errno::AGAIN), "the lock is held");
        assert!(waiter.try_wait().unwrap().is_none(), "the waiter waits");
        kept.kill_worker();
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        assert_eq!(says(&mut waiter_says), "locked", "the waiter has it when the holder lets go");
        drop(waiter.stdin.take());
        assert!(waiter.wait().unwrap().success());
        drop(whole);
        eventually("the lock of flock(2) is let go of", || {
            flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok()
        });
    });
}

/// Returns a mount with a bucket, over a Redis that can be suspended.
fn over_redis() -> Option<(Database, Kept)> {
    let redis = can_mount().then(redis)??;
    let kept = Kept::new(Some(&redis.url()));
    fs::create_dir(kept.path("bucket")).unwrap();
    Some((redis, kept))
}

/// A program that writes to a file, closes it, and then creates names.
const WRITER: &str = "
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
os.mkdir(sys.argv[1])
file = open(sys.argv[1] + '/file', 'w')
file.write('unsynced')
file.flush()
print('written', flush=True)
sys.stdin.readline()
os.mkdir(sys.argv[1] + '/below')
";

#[test]
fn a_program_that_waits_for_the_database_can_be_killed() {
    for handles_one_before in [false, true] {
        kill_a_waiting_program(handles_one_before);
    }
}

/// Kills a waiting program. The kernel reports the first signal only, so a signal that the program
/// handles before must not hide the one that ends it.
fn kill_a_waiting_program(handles_one_before: bool) {
    let Some((redis, kept)) = over_redis() else { return };
    let bucket = kept.path("bucket");
    let mut command = Command::new("python3");
    command.args(["-c", WRITER]).arg(bucket.join("d"));
    let mut writer = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(writer.stdout.take().unwrap());
    assert_eq!(says(&mut output), "written");
    redis.freeze(true);
    writeln!(writer.stdin.as_mut().unwrap()).unwrap();
    thread::sleep(Duration::from_secs(2));
    assert!(writer.try_wait().unwrap().is_none(), "it waits for the database");
    if handles_one_before {
        crate::kept::signal(writer.id(), rustix::process::Signal::USR1);
        thread::sleep(Duration::from_secs(1));
        assert!(writer.try_wait().unwrap().is_none(), "it goes on waiting");
    }
    writer.kill().unwrap();
    let began = std::time::Instant::now();
    eventually("it dies", || writer.try_wait().unwrap().is_some());
    eprintln!("it died within {:?}", began.elapsed());
    redis.freeze(false);
    eventually("what it wrote is there", || {
        fs::read(bucket.join("d/file")).is_ok_and(|content| content == b"unsynced")
    });
}

/// The kernel closes inherited files before a new program starts. While such a close waits, reads
/// of the process in `/proc` block.
#[test]
fn a_program_starts_while_the_close_of_an_inherited_file_waits() {
    let Some((redis, kept)) = over_redis() else { return };
    let bucket = kept.path("bucket");
    let mut file = make(&bucket.join("file"));
    file.write_all(b"unsynced").unwrap();
    redis.freeze(true);
    let mut begun = Command::new("true").spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    assert!(begun.try_wait().unwrap().is_none(), "the file's end waits for the database");
    redis.freeze(false);
    eventually("the program begins, and ends", || begun.try_wait().unwrap().is_some());
    drop(file);
    assert_eq!(fs::read(bucket.join("file")).unwrap(), b"unsynced");
}
