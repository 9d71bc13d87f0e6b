//! System calls of programs, as the programs see them.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::kept::{Kept, can_mount, redis};

/// A user without privileges.
const SOMEBODY: u32 = 12_345;

/// The limit of time of df(1) while the database does not answer: each of its calls waits for a
/// second.
const DF_PATIENCE: Duration = Duration::from_secs(10);

/// Prints the file handle of a path.
const HANDLE: &str = "
import ctypes, sys
class Handle(ctypes.Structure): _fields_ = [('bytes', ctypes.c_uint), ('kind', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]
libc = ctypes.CDLL(None, use_errno=True)
handle, mount = Handle(), ctypes.c_int()
handle.bytes = 128
assert libc.name_to_handle_at(-100, sys.argv[1].encode(), ctypes.byref(handle), ctypes.byref(mount), 0) == 0
print(bytes(handle).hex())
";

/// Opens a file handle on a mount, and prints the content of the file, or the names in the
/// directory.
const OPENS: &str = "
import ctypes, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
mount = os.open(sys.argv[1], os.O_RDONLY)
file = libc.open_by_handle_at(mount, bytes.fromhex(sys.argv[2]), os.O_RDONLY)
if file < 0: print(os.strerror(ctypes.get_errno()))
elif stat.S_ISDIR(os.fstat(file).st_mode): print(os.listdir(file))
else: print(os.read(file, 100))
";

const WHITEOUT: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
old, new = sys.argv[1].encode(), sys.argv[2].encode()
if libc.renameat2(-100, old, -100, new, int(sys.argv[3])) != 0: sys.exit(ctypes.get_errno())
";

fn python(script: &str, arguments: &[&str]) -> Output {
    Command::new("python3").args(["-c", script]).args(arguments).output().unwrap()
}

fn says(script: &str, arguments: &[&str]) -> String {
    let output = python(script, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A mount with a bucket.
fn mounted() -> Option<Kept> {
    if !can_mount() {
        return None;
    }
    let kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    Some(kept)
}

#[test]
fn file_handles_stay_valid_after_cache_drops_and_a_remount() {
    let Some(kept) = mounted() else { return };
    let (file, folder) = (kept.path("bucket/d/file"), kept.path("bucket/d"));
    fs::create_dir(&folder).unwrap();
    fs::write(&file, b"content").unwrap();
    let handles = [says(HANDLE, &[text(&file)]), says(HANDLE, &[text(&folder)])];
    let found =
        |kept: &Kept| handles.each_ref().map(|handle| says(OPENS, &[text(&kept.path("")), handle]));
    let expected = ["b'content'", "['file']"];
    assert_eq!(found(&kept), expected);
    fs::write("/proc/sys/vm/drop_caches", "3\n").unwrap();
    assert_eq!(found(&kept), expected, "the kernel has forgotten them");
    let kept = kept.anew();
    assert_eq!(found(&kept), expected, "it is another mount");
    fs::remove_dir_all(kept.path("bucket/d")).unwrap();
    fs::write("/proc/sys/vm/drop_caches", "3\n").unwrap();
    assert_eq!(found(&kept), ["Stale file handle"; 2]);
}

#[test]
fn a_rename_leaves_a_whiteout() {
    let Some(kept) = mounted() else { return };
    let (old, new) = (kept.path("bucket/old"), kept.path("bucket/new"));
    fs::write(&old, b"moved").unwrap();
    assert!(python(WHITEOUT, &[text(&old), text(&new), "4"]).status.success());
    assert_eq!(fs::read(&new).unwrap(), b"moved");
    let left = fs::symlink_metadata(&old).unwrap();
    assert!(left.file_type().is_char_device());
    assert_eq!((left.rdev(), left.mode() & 0o7777), (0, 0));
    fs::remove_file(&old).unwrap();
}

#[test]
fn fallocate_and_copies_of_unprivileged_programs_drop_setuid_bits() {
    let Some(kept) = mounted() else { return };
    let kept = kept.anew_with(&["--allow-other"]);
    fs::set_permissions(kept.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, source) = (kept.path("bucket/program"), kept.path("bucket/source"));
    fs::write(&source, vec![1; 200_000]).unwrap();
    let punch = "fallocate --punch-hole --offset 0 --length 100000 program";
    let copy = "python3 -c 'import os
to = os.open(\"program\", os.O_WRONLY)
assert os.copy_file_range(os.open(\"source\", os.O_RDONLY), to, 100000) == 100000'";
    for script in ["fallocate --length 300000 program", punch, copy] {
        fs::write(&program, vec![2; 200_000]).unwrap();
        chown(&program, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
        let id = SOMEBODY.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--clear-groups", "--reuid", &id, "--regid", &id, "sh", "-ec", script]);
        assert!(command.current_dir(kept.path("bucket")).status().unwrap().success(), "{script}");
        assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, 0o755, "{script}");
    }
}

#[test]
fn only_the_user_of_the_mount_reads_its_counters() {
    let Some(kept) = mounted() else { return };
    let kept = kept.anew_with(&["--allow-other"]);
    fs::set_permissions(kept.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(fs::read_to_string(kept.path(".ashlar/stats")).unwrap().contains("ashlar_"));
    let id = SOMEBODY.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--clear-groups", "--reuid", &id, "--regid", &id, "cat", ".ashlar/stats"]);
    let output = command.current_dir(kept.path("")).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
}

#[test]
fn df_returns_while_the_database_does_not_answer() {
    let Some(redis) = can_mount().then(redis).flatten() else { return };
    let kept = Kept::new(Some(&redis.url()));
    fs::create_dir(kept.path("bucket")).unwrap();
    let df = || {
        let seconds = DF_PATIENCE.as_secs().to_string();
        let mut command = Command::new("timeout");
        command.args(["--signal", "KILL", &seconds, "df", "--output=used"]);
        command.arg(kept.path("")).output().unwrap()
    };
    let before = df();
    assert!(before.status.success());
    redis.freeze(true);
    // The kernel's cached attributes of the root have expired then.
    std::thread::sleep(Duration::from_secs(2));
    let began = Instant::now();
    let frozen = df();
    let elapsed = began.elapsed();
    redis.freeze(false);
    assert!(frozen.status.success(), "after {elapsed:?}");
    assert_eq!(frozen.stdout, before.stdout);
}
