use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;

/// Returns the open descriptors of the thread with this name.
fn thread_named(name: &str) -> Option<String> {
    fs::read_dir("/proc/self/task").unwrap().find_map(|task| {
        let task = task.unwrap().path();
        let is_it = fs::read_to_string(task.join("comm")).ok()?.trim_end() == name;
        is_it.then(|| task.to_str().unwrap().to_owned())
    })
}

#[test]
fn notice_writer_has_only_the_device_open() {
    let (mut read_end, write_end) = UnixStream::pair().unwrap();
    read_end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let device = Device::new(OwnedFd::from(write_end));
    let writer = NoticeWriter::start(&device).unwrap();
    // The kernel truncates thread names to 15 bytes.
    let task = thread_named("fuse-notice-wri").unwrap();
    assert_eq!(fs::read_dir(format!("{task}/fd")).unwrap().count(), 1);

    writer.write(b"told".to_vec()).unwrap();
    let mut told = [0; 4];
    read_end.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"told");

    // The descriptors of this thread are unchanged.
    device.write(&[IoSlice::new(b"also")]).unwrap();
    read_end.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"also");
    let mut scratch = tempfile::tempfile().unwrap();
    scratch.write_all(b"written").unwrap();
    assert!(scratch.as_raw_fd() > 2);

    // When both have dropped it, the device is closed.
    drop((writer, device));
    assert_eq!(read_end.read(&mut told).unwrap(), 0);
    assert!(File::open("/proc/self/status").is_ok());
}
