//! Two mounts of one volume.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use databases::Database;
use rustix::process::Signal;

use crate::kept::{Kept, can_mount, redis, signal};

/// Takes turns with a program that maps the same file: each waits in the map for its turn, adds one
/// to the counter of both, and gives the turn to the other one. Then it prints its counts, and the
/// bytes that a read of the file returns.
const TAKES_TURNS: &str = "
import mmap, os, struct, sys, time
file, own, rounds = os.open(sys.argv[1], os.O_RDWR), int(sys.argv[2]), int(sys.argv[3])
memory = mmap.mmap(file, 8192, mmap.MAP_SHARED)
until = time.monotonic() + 200
for _ in range(rounds):
    while memory[0] != own:
        assert time.monotonic() < until, 'the turn does not come'
        time.sleep(0.01)
    count, = struct.unpack_from('<q', memory, 8)
    struct.pack_into('<q', memory, 8, count + 1)
    struct.pack_into('<q', memory, 4096, count + 1)
    # What a program writes and what it maps are one.
    at = 16 + 8 * own
    os.pwrite(file, struct.pack('<q', count + 1), at)
    assert struct.unpack_from('<q', memory, at) == (count + 1,)
    memory[0] = 1 - own
while struct.unpack_from('<q', memory, 8)[0] < rounds * 2:
    assert time.monotonic() < until
    time.sleep(0.01)
print(*struct.unpack('<qqq', os.pread(file, 24, 8)), *struct.unpack('<q', os.pread(file, 8, 4096)))
";

/// Maps a file that it may only read, and waits until the map shows what another mount maps there.
const WATCHES: &str = "
import mmap, os, sys, time
lock = os.open(sys.argv[1] + '.lock', os.O_RDWR)
file = os.open(sys.argv[1], os.O_RDONLY)
memory = mmap.mmap(file, 4096, mmap.MAP_SHARED, mmap.PROT_READ)
print(memory[:4].decode(), flush=True)
until = time.monotonic() + 100
while memory[:4] != b'then':
    assert time.monotonic() < until, memory[:4]
    time.sleep(0.01)
print('then', flush=True)
";

/// Maps a file and changes the map on command. It keeps the map until the command to end.
const CHANGES: &str = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
memory = mmap.mmap(file, 4096, mmap.MAP_SHARED)
memory[:4] = b'here'
print('here', flush=True)
sys.stdin.readline()
memory[:4] = b'then'
sys.stdin.readline()
";

/// Counts in an open database, and prints the number of acknowledged commits. Both programs read
/// from it before one of them starts.
const COUNTS: &str = "
import os, sqlite3, sys, time
base = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
base.execute('select value from counter').fetchone()
folder, own = os.path.dirname(sys.argv[1]), sys.argv[2]
open(f'{folder}/ready{own}', 'w').close()
while not all(os.path.exists(f'{folder}/ready{each}') for each in '01'):
    time.sleep(0.01)
counted = 0
for _ in range(25):
    try:
        base.execute('begin immediate')
        value = base.execute('select value from counter').fetchone()[0]
        base.execute('update counter set value = ?', (value + 1,))
        base.execute('commit')
        counted += 1
    except sqlite3.Error as error:
        print(error, file=sys.stderr)
print(counted)
";

/// Prints the results of calls in a removed directory, which is the current one and open.
const IN_REMOVED: &str = "
import errno, os, sys
os.chdir(sys.argv[1])
held = os.open('.', os.O_RDONLY)
kept = os.stat('.').st_ino
print('in', flush=True)
sys.stdin.readline()
def told(work):
    try:
        return work()
    except OSError as error:
        return errno.errorcode[error.errno]
assert told(lambda: os.stat('.')) == told(lambda: os.fstat(held))
assert (os.stat('.').st_ino, os.stat('.').st_nlink) == (kept, 0)
assert (told(lambda: os.listdir('.')), told(lambda: os.listdir(held))) == ([], [])
for work in [lambda: os.open('f', os.O_CREAT | os.O_WRONLY), lambda: os.open('f', os.O_RDONLY),
             lambda: os.mkdir('d'), lambda: os.symlink('a', 'l'), lambda: os.mknod('p', 0o10600),
             lambda: os.unlink('f'), lambda: os.rmdir('d'), lambda: os.rename('f', '../f'),
             lambda: os.rename('../other', 'f'), lambda: os.link('../other', 'f'),
             lambda: os.open('.', os.O_TMPFILE | os.O_RDWR), lambda: os.stat('f')]:
    assert told(work) == 'ENOENT', (told(work), work.__code__.co_firstlineno, work.__code__.co_names)
assert told(lambda: os.getxattr('.', 'user.a')) == 'ENODATA' and os.listxattr('.') == []
assert os.stat('..').st_nlink > 0
print('done', flush=True)
";

/// Two mounts of one volume with a bucket, over Redis.
fn two() -> Option<(Database, Kept, Kept)> {
    let redis = can_mount().then(redis)??;
    let kept = Kept::new(Some(&redis.url()));
    fs::create_dir(kept.path("bucket")).unwrap();
    let beside = kept.beside();
    Some((redis, kept, beside))
}

fn python(script: &str, path: &Path, words: &[&str]) -> Child {
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(path).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Returns the next line of a program.
fn said(program: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    program.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Returns the output of a program, which must succeed.
fn output(program: Child) -> String {
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn programs_on_two_mounts_share_a_map() {
    let Some((_redis, mut kept, mut beside)) = two() else { return };
    let (here, there) = (kept.path("bucket/map"), beside.path("bucket/map"));
    fs::write(&here, vec![0; 8192]).unwrap();
    let programs =
        [python(TAKES_TURNS, &here, &["0", "12"]), python(TAKES_TURNS, &there, &["1", "12"])];
    // Workers are killed while their programs wait for pages, or have some.
    kept.kill_worker();
    beside.kill_worker();
    for said in programs.map(output) {
        assert_eq!(said, "24 23 24 24");
    }
}

/// Changes a page of a map, and then syncs it at a signal of the test.
const SYNCS_LATER: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
pages = mmap.mmap(fd, 8192)
pages[0:5] = b'stale'
print('changed', flush=True)
sys.stdin.readline()
try:
    pages.flush()
    os.fsync(fd)
    print('synced', flush=True)
except OSError as error:
    print(os.strerror(error.errno), flush=True)
";

/// Changes the same page, and syncs it.
const SYNCS: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
pages = mmap.mmap(fd, 8192)
pages[0:5] = b'other'
pages.flush()
print('synced', flush=True)
";

#[test]
fn a_suspended_mount_does_not_overwrite_pages_of_another() {
    let Some((_redis, kept, beside)) = two() else { return };
    let (here, there) = (kept.path("bucket/map"), beside.path("bucket/map"));
    fs::write(&here, vec![0; 8192]).unwrap();
    let mut paused = python(SYNCS_LATER, &here, &[]);
    let mut of_paused = BufReader::new(paused.stdout.take().unwrap());
    assert_eq!(said(&mut of_paused), "changed");
    let processes = [kept.keeper(), kept.worker().unwrap()];
    processes.iter().for_each(|process| signal(*process, Signal::STOP));
    // The other mount waits for a page until the session of the suspended one has ended.
    assert_eq!(output(python(SYNCS, &there, &[])), "synced");
    processes.iter().for_each(|process| signal(*process, Signal::CONT));
    writeln!(paused.stdin.as_mut().unwrap()).unwrap();
    assert_eq!(said(&mut of_paused), "Input/output error");
    assert!(paused.wait().unwrap().success());
    for path in [there, here] {
        assert!(fs::read(path).unwrap().starts_with(b"other"), "it was overwritten");
    }
}

#[test]
fn a_read_only_map_shows_writes_of_another_mount() {
    let Some((_redis, kept, beside)) = two() else { return };
    let (here, there) = (kept.path("bucket/map"), beside.path("bucket/map"));
    fs::write(&here, vec![0; 4096]).unwrap();
    fs::write(kept.path("bucket/map.lock"), b"").unwrap();
    let mut changes = python(CHANGES, &here, &[]);
    let mut of_changer = BufReader::new(changes.stdout.take().unwrap());
    assert_eq!(said(&mut of_changer), "here");
    let mut watches = python(WATCHES, &there, &[]);
    let mut of_watcher = BufReader::new(watches.stdout.take().unwrap());
    assert_eq!(said(&mut of_watcher), "here", "it was changed in the map alone");
    writeln!(changes.stdin.as_mut().unwrap()).unwrap();
    assert_eq!(said(&mut of_watcher), "then");
    assert!(watches.wait().unwrap().success());
    writeln!(changes.stdin.as_mut().unwrap()).unwrap();
    assert!(changes.wait().unwrap().success());
}

#[test]
fn sqlite_in_wal_mode_works_on_two_mounts() {
    let Some((_redis, kept, beside)) = two() else { return };
    let base = kept.path("bucket/base");
    output(python(
        "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
assert base.execute('pragma journal_mode=wal').fetchone() == ('wal',)
base.execute('create table counter(value)')
base.execute('insert into counter values(0)')
",
        &base,
        &[],
    ));
    let counting =
        [python(COUNTS, &base, &["0"]), python(COUNTS, &beside.path("bucket/base"), &["1"])];
    let counted = counting.map(|program| output(program).parse::<u32>().unwrap());
    assert_eq!(counted, [25, 25], "neither program is refused a commit");
    let looked = python(
        "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
assert base.execute('pragma integrity_check').fetchall() == [('ok',)]
print(base.execute('select value from counter').fetchone()[0])
",
        &base,
        &[],
    );
    assert_eq!(output(looked), "50");
}

#[test]
fn a_removed_directory_behaves_as_on_a_local_disk() {
    let Some((_redis, mut kept, beside)) = two() else { return };
    fs::write(kept.path("bucket/other"), b"").unwrap();
    for by_itself in [false, true] {
        fs::create_dir(kept.path("bucket/gone")).unwrap();
        let mut program = python(IN_REMOVED, &kept.path("bucket/gone"), &[]);
        let mut of_program = BufReader::new(program.stdout.take().unwrap());
        assert_eq!(said(&mut of_program), "in");
        let remover = if by_itself { &kept } else { &beside };
        fs::remove_dir(remover.path("bucket/gone")).unwrap();
        writeln!(program.stdin.take().unwrap()).unwrap();
        assert_eq!(said(&mut of_program), "done");
        assert!(program.wait().unwrap().success());
    }
    // The next worker knows a directory that is open.
    fs::create_dir(kept.path("bucket/gone")).unwrap();
    let mut program = python(IN_REMOVED, &kept.path("bucket/gone"), &[]);
    let mut of_program = BufReader::new(program.stdout.take().unwrap());
    assert_eq!(said(&mut of_program), "in");
    kept.kill_worker();
    fs::remove_dir(beside.path("bucket/gone")).unwrap();
    writeln!(program.stdin.take().unwrap()).unwrap();
    assert_eq!(said(&mut of_program), "done");
    assert!(program.wait().unwrap().success());
}
