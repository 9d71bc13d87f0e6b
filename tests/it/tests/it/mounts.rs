//! One file on two mounts of one volume: locks between their programs, writes under these locks,
//! appends from both, and reads of overwritten files.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fleet::{BlockKind, Engine, Fleet, on_each_server, on_the_drawn_server};
use crate::mounted::{Mount, can_mount};

on_each_server!(programs_on_two_mounts_take_turns_and_append);
on_the_drawn_server!(an_overwritten_file_is_read_completely_despite_a_cached_length);

/// Takes locks of both kinds and increments a counter under each; appends lines without a lock.
const PROGRAM: &str = r#"
import fcntl, os, sys
folder, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
log = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
counter = os.open(f"{folder}/counter", os.O_RDWR)
for number in range(rounds):
    lock = fcntl.flock if number % 2 else fcntl.lockf
    # Locks of the two kinds do not conflict, so each has its own counter.
    at = 16 * (number % 2)
    lock(counter, fcntl.LOCK_EX)
    total = int(os.pread(counter, 16, at))
    os.pwrite(counter, b"%016d" % (total + 1), at)
    lock(counter, fcntl.LOCK_UN)
    os.write(log, f"{name} {number}\n".encode())
    if number % 5 == 0:
        os.fsync(log)
os.close(log)
os.close(counter)
"#;

/// Holds a lock of a range until its standard input ends.
const HOLDER: &str = r#"
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX, 10, 100)
print("held", flush=True)
sys.stdin.read()
"#;

/// Asks for the holder of a range, and tries to lock it.
const ASKER: &str = r#"
import fcntl, os, struct, sys
file = os.open(sys.argv[1], os.O_RDWR)
shape = "hhqqi4x"
asked = struct.pack(shape, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
kind, _, start, length, _ = struct.unpack(shape, fcntl.fcntl(file, fcntl.F_GETLK, asked))
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 105)
    taken = True
except BlockingIOError:
    taken = False
print(kind == fcntl.F_WRLCK, start, length, taken)
"#;

const ROUNDS: u32 = 15;

/// Number of overwrites of a file.
const OVERWRITES: u8 = 60;

/// The time limit of all programs of a test, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

fn python(program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new("python3");
    command.args(["-c", program]).args(arguments).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("python3 runs")
}

/// Returns the output of a program after it ended successfully.
fn said(mut program: Child) -> String {
    let limit = Instant::now() + PATIENCE;
    while program.try_wait().expect("a child can be asked").is_none() {
        if Instant::now() > limit {
            let _ended = program.kill();
            panic!("a program waits for ever");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = program.wait_with_output().expect("its output");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn programs_on_two_mounts_take_turns_and_append(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let place = fleet.first.folder.join("mounts");
    let first = Mount::start(&fleet.first, &place.join("first"));
    let second = Mount::start(&fleet.first.sibling("second"), &place.join("second"));
    let client = &first.gateway().client;
    client.put("/box", b"").expect(200);
    client.put("/box/counter", format!("{:016}{:016}", 0, 0).as_bytes()).expect(200);
    let folder = |mount: &Mount| mount.folder.join("box").to_str().expect("a path").to_owned();
    let folders = [folder(&first), folder(&second)];
    let rounds = ROUNDS.to_string();
    let start =
        |number: usize| python(PROGRAM, &[&folders[number % 2], &number.to_string(), &rounds]);
    let running: Vec<Child> = (0..4).map(start).collect();
    running.into_iter().for_each(|program| drop(said(program)));
    let counted = client.get("/box/counter").expect(200).text();
    // Each program counts half of its rounds under a lock of each kind.
    let (odd, even) = (4 * (ROUNDS / 2), 4 * ROUNDS.div_ceil(2));
    assert_eq!(counted, format!("{even:016}{odd:016}"));
    let log = client.get("/box/log").expect(200).text();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> =
        (0..4).flat_map(|name| (0..ROUNDS).map(move |n| format!("{name} {n}"))).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    // The other mount sees the holder of a lock, until the holder ends.
    let file = |mount: usize| format!("{}/counter", folders[mount]);
    let mut holder = python(HOLDER, &[&file(0)]);
    let mut line = String::new();
    let output = holder.stdout.as_mut().expect("its output");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a line");
    assert_eq!(line, "held\n");
    assert_eq!(said(python(ASKER, &[&file(1)])), "True 100 10 False\n");
    drop(holder.stdin.take());
    holder.wait().expect("it ends");
    assert_eq!(said(python(ASKER, &[&file(1)])), "False 0 0 True\n");
    drop((first, second));
}

/// With `--coherence pushed` a kernel may cache the length of a file for a moment. A program that
/// opens the file nevertheless reads its current content.
fn an_overwritten_file_is_read_completely_despite_a_cached_length(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let (place, pushed) = (fleet.first.folder.join("mounts"), ["--coherence", "pushed"]);
    let first = Mount::start_with(&fleet.first, &place.join("first"), &pushed);
    let second = Mount::start_with(&fleet.first.sibling("second"), &place.join("second"), &pushed);
    first.gateway().client.put("/box", b"").expect(200);
    let (read, written) = (first.folder.join("box/file"), second.folder.join("box/file"));
    let mut remembered = 0;
    for round in 1..=OVERWRITES {
        // Longer and shorter in turn.
        let content = vec![b'a' + round % 26; 1000 + 500 * usize::from(round % 3)];
        std::fs::write(&written, &content).expect("a file can be written over");
        let shown = std::fs::metadata(&read).map_or(0, |metadata| metadata.len());
        remembered += u32::from(shown != content.len() as u64);
        let found = std::fs::read(&read).expect("it is there");
        assert!(found == content, "{} bytes of {}; {shown} remembered", found.len(), content.len());
        // Makes the kernel cache the length: after the read it has no access time, so it needs new
        // attributes.
        std::fs::metadata(&read).expect("it is there");
    }
    assert!(remembered > 0, "the kernel has remembered nothing");
    [first, second].into_iter().for_each(Mount::stop);
}
