//! Starting, ending and handing over sessions.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fuse::{
    KernelOptions, KernelSession, MountError, Negotiated, SessionEnd, UnmountError, UnmountMode,
    mount, unmount,
};
use rustix::fs::{FlockOperation, flock};

use crate::stage::{LONG, Stage, eventually, options};

#[test]
fn mount_in_use_is_unmounted_only_lazily() {
    let stage = Stage::new(LONG);
    fs::write(stage.path("file"), "content").unwrap();
    let mut file = File::open(stage.path("file")).unwrap();
    assert!(matches!(unmount(stage.folder(), UnmountMode::IfUnused), Err(UnmountError::Busy)));
    assert!(stage.path("file").exists());
    unmount(stage.folder(), UnmountMode::Lazy).unwrap();
    assert!(!stage.path("file").exists());
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "content", "open files stay readable");
    assert!(matches!(unmount(stage.folder(), UnmountMode::Lazy), Err(UnmountError::NotMounted)));
    drop(file);
    assert_eq!(stage.session().join(), SessionEnd::Unmounted);
}

#[test]
fn an_unused_mount_is_unmounted_and_its_session_ends() {
    let stage = Stage::new(LONG);
    fs::write(stage.path("file"), "content").unwrap();
    // The program does not wait for the reply to RELEASE, and the mount is in use until then.
    eventually(|| unmount(stage.folder(), UnmountMode::IfUnused).is_ok());
    assert_eq!(stage.session().join(), SessionEnd::Unmounted);
    assert_eq!(fs::read_dir(stage.folder()).unwrap().count(), 0);
}

#[test]
fn aborted_mount_fails_waiting_programs() {
    let stage = Stage::new(LONG);
    let lock = |path| {
        let file = File::create(path).unwrap();
        flock(&file, FlockOperation::LockExclusive).map(|()| file)
    };
    let path = stage.path("file");
    let held = lock(path.clone()).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock(path).map(drop));
        eventually(|| stage.session().in_flight() == 1);
        // `umount` may report that the mount is in use, and aborts it nevertheless.
        let _busy = unmount(stage.folder(), UnmountMode::Abort);
        assert!(waiting.join().unwrap().is_err());
    });
    drop(held);
    assert_eq!(stage.session().join(), SessionEnd::Unmounted);
    drop(stage.files.write());
}

#[test]
fn a_folder_that_is_mounted_on_is_refused() {
    let stage = Stage::new(LONG);
    let refused = mount(stage.folder(), &options()).unwrap_err();
    assert!(matches!(&refused, MountError::InUse { mounted } if mounted == "stage"), "{refused}");
}

#[test]
fn a_mount_without_a_server_is_refused_and_can_be_unmounted() {
    let folder = tempfile::tempdir().unwrap();
    drop(mount(folder.path(), &options()).unwrap());
    let another = fuse::MountOptions::new("another", "another");
    assert!(matches!(mount(folder.path(), &another), Err(MountError::Dead)));
    unmount(folder.path(), UnmountMode::IfUnused).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_mount_of_the_same_kind_without_a_server_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    drop(mount(folder.path(), &options()).unwrap());
    fuse::check_mountable(folder.path(), &options()).unwrap();
    // The check removes nothing.
    assert_eq!(fs::metadata(folder.path()).unwrap_err().kind(), ErrorKind::NotConnected);
    drop(mount(folder.path(), &options()).unwrap());
    unmount(folder.path(), UnmountMode::IfUnused).unwrap();
    let second = unmount(folder.path(), UnmountMode::IfUnused);
    assert!(matches!(second, Err(UnmountError::NotMounted)), "the first mount is removed");
}

#[test]
fn read_ahead_can_be_raised() {
    let stage = Stage::new(LONG);
    fuse::raise_read_ahead(stage.folder(), 2048).unwrap();
    let device = fs::metadata(stage.folder()).unwrap();
    let minor = rustix::fs::minor(std::os::unix::fs::MetadataExt::dev(&device));
    let told = fs::read_to_string(format!("/sys/class/bdi/0:{minor}/read_ahead_kb")).unwrap();
    assert_eq!(told.trim(), "2048");
}

#[test]
fn session_is_handed_over_without_errors() {
    let mut stage = Stage::new(LONG);
    let stop = AtomicBool::new(false);
    let path = stage.path("file");
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut file = File::create(&path).unwrap();
            let mut written = 0_u64;
            while !stop.load(Ordering::SeqCst) {
                file.write_all(&written.to_le_bytes()).unwrap();
                fs::metadata(path.with_extension(written.to_string())).unwrap_err();
                written += 1;
            }
            written
        });
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(20));
            let old = stage.session();
            assert_eq!(old.stop_reading(), Ok(SessionEnd::Stopped));
            assert_eq!(old.drain(Duration::from_secs(20)), 0);
            let bytes = old.negotiated().to_bytes();
            let negotiated = Negotiated::from_bytes(&bytes).unwrap();
            let (device, files) = (stage.device(), stage.files.clone());
            let options = KernelOptions::default();
            let new = KernelSession::resume(device, negotiated, options, files).unwrap();
            stage.replace_session(new);
        }
        stop.store(true, Ordering::SeqCst);
        let written = writer.join().unwrap();
        assert!(written > 10);
        let content = fs::read(&path).unwrap();
        let expected: Vec<u8> = (0..written).flat_map(u64::to_le_bytes).collect();
        assert!(content == expected, "every write happened once");
    });
}

#[test]
fn lock_wait_is_granted() {
    let stage = Stage::new(LONG);
    let open = || File::create(stage.path("file")).unwrap();
    let (held, wanted) = (open(), open());
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let refused = flock(&wanted, FlockOperation::NonBlockingLockShared);
    assert_eq!(refused, Err(rustix::io::Errno::WOULDBLOCK));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| flock(&wanted, FlockOperation::LockShared));
        eventually(|| stage.session().in_flight() == 1);
        assert!(!waiting.is_finished());
        // Closing the file releases the lock.
        drop(held);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}

#[test]
fn session_with_read_errors_fails_and_another_continues() {
    let mut stage = Stage::new(LONG);
    fs::write(stage.path("file"), "content").unwrap();
    assert_eq!(stage.session().stop_reading(), Ok(SessionEnd::Stopped));
    assert_eq!(stage.session().drain(Duration::from_secs(20)), 0);
    let negotiated = stage.session().negotiated();
    let resume = |negotiated| {
        let (options, files) = (KernelOptions::default(), stage.files.clone());
        KernelSession::resume(stage.device(), negotiated, options, files).unwrap()
    };
    let path = stage.path("another");
    let goes_on = thread::scope(|scope| {
        // The kernel gives no request to a reader whose buffer is too small for the largest one.
        let too_small = resume(Negotiated { write_bytes_max: 4096, ..negotiated });
        let reader = scope.spawn(|| fs::metadata(path).unwrap_err().kind());
        let end = too_small.join();
        let goes_on = resume(negotiated);
        assert_eq!(reader.join().unwrap(), std::io::ErrorKind::NotFound);
        assert_eq!(end, SessionEnd::Failed(fuse::Errno::EINVAL));
        goes_on
    });
    stage.replace_session(goes_on);
}
