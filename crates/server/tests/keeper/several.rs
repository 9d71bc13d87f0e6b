//! Two mounts of one volume.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use databases::Database;

use crate::kept::{Kept, can_mount, eventually, redis};

/// Maps a file shared and writable, says what came of it, and keeps the map until it is told to end.
const MAPS: &str = "
import errno, mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
private = mmap.mmap(file, 4096, mmap.MAP_PRIVATE)
assert private[:4] == b'here', private[:4]
try:
    shared = mmap.mmap(file, 4096, mmap.MAP_SHARED)
    print('mapped', flush=True)
except OSError as refused:
    print(errno.errorcode[refused.errno], flush=True)
sys.stdin.readline()
";

/// Counts in a database in WAL mode, and says how many commits were acknowledged.
const COUNTS: &str = "
import sqlite3, sys
counted = 0
for _ in range(40):
    try:
        base = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)
        base.execute('begin immediate')
        value = base.execute('select value from counter').fetchone()[0]
        base.execute('update counter set value = ?', (value + 1,))
        base.execute('commit')
        counted += 1
    except sqlite3.Error:
        pass
    if counted % 7 == 0:
        base.close()
print(counted)
";

/// Two mounts of one volume with a bucket, over Redis.
fn two() -> Option<(Database, Kept, Kept)> {
    let redis = can_mount().then(redis)??;
    let kept = Kept::new(Some(&redis.url()));
    fs::create_dir(kept.path("bucket")).unwrap();
    let beside = kept.beside();
    Some((redis, kept, beside))
}

fn python(script: &str, path: &Path) -> Child {
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Starts a program that maps a file, and returns it with what it says.
fn maps(path: &Path) -> (Child, String) {
    let mut program = python(MAPS, path);
    let mut said = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut said).unwrap();
    (program, said.trim().to_owned())
}

fn end(mut program: Child) {
    writeln!(program.stdin.take().unwrap()).unwrap();
    assert!(program.wait().unwrap().success());
}

#[test]
fn a_file_is_mapped_shared_and_writable_on_one_mount_at_a_time() {
    let Some((_redis, kept, beside)) = two() else { return };
    let (here, there) = (kept.path("bucket/map"), beside.path("bucket/map"));
    let mut content = vec![0; 4096];
    content[..4].copy_from_slice(b"here");
    fs::write(&here, &content).unwrap();
    let (first, said) = maps(&here);
    assert_eq!(said, "mapped");
    let (other, said) = maps(&there);
    assert_eq!(said, "ENODEV");
    let (second, said) = maps(&here);
    assert_eq!(said, "mapped", "programs of one mount share their maps");
    end(first);
    end(other);
    let (other, said) = maps(&there);
    assert_eq!(said, "ENODEV", "a program is left that has mapped it");
    end(other);
    end(second);
    // The kernel ends an open file after close(2) has returned.
    eventually("the other mount maps it", || {
        let (other, said) = maps(&there);
        end(other);
        said == "mapped"
    });
}

#[test]
fn no_commit_in_wal_mode_is_acknowledged_and_lost() {
    let Some((_redis, kept, beside)) = two() else { return };
    let base = kept.path("bucket/base");
    let made = python(
        "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
assert base.execute('pragma journal_mode=wal').fetchone() == ('wal',)
base.execute('create table counter(value)')
base.execute('insert into counter values(0)')
",
        &base,
    );
    assert!(made.wait_with_output().unwrap().status.success());
    let counting = [python(COUNTS, &base), python(COUNTS, &beside.path("bucket/base"))];
    let counted: u32 = counting
        .into_iter()
        .map(|program| {
            let output = program.wait_with_output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().unwrap()
        })
        .sum();
    assert!(counted > 0, "one of them counts");
    let looked = python(
        "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
assert base.execute('pragma integrity_check').fetchall() == [('ok',)]
print(base.execute('select value from counter').fetchone()[0])
",
        &base,
    );
    let output = looked.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), counted.to_string());
}
