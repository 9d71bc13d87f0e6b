use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::{Drops, Message, Output, Writer};
use crate::entry::AuditEntry;
use crate::line::LineFormat;

/// A device with space for some bytes, which then writes a part and fails, as a full disk does.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (written, space) = &mut *self.0.lock().unwrap();
        let taken = bytes.len().min(*space);
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        written.extend_from_slice(&bytes[..taken]);
        *space -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entry(request_id: &str) -> Message {
    let request_id = request_id.to_owned();
    Message::Entry(Arc::new(AuditEntry { request_id, ..AuditEntry::default() }))
}

#[test]
fn a_line_after_a_cut_one_begins_on_its_own() {
    let (disk, drops) = (Disk::default(), Arc::new(Drops::default()));
    disk.0.lock().unwrap().1 = 10;
    let queued = Arc::new(std::sync::atomic::AtomicUsize::new(1 << 20));
    let output = Output::over(disk.clone());
    let mut writer = Writer::new(output, LineFormat::Json, queued, Arc::clone(&drops));
    assert!(writer.take(entry("cut")));
    assert_eq!(writer.write().unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!((drops.meters.written.get(), drops.meters.dropped.get()), (0, 1));

    disk.0.lock().unwrap().1 = 1 << 20;
    assert!(writer.take(entry("whole")));
    writer.write().unwrap();
    assert_eq!((drops.meters.written.get(), drops.meters.dropped.get()), (1, 1));
    let text = String::from_utf8(disk.0.lock().unwrap().0.clone()).unwrap();
    let last = text.lines().last().unwrap();
    let value: serde_json::Value = serde_json::from_str(last).expect("a whole line");
    assert_eq!(value["request_id"], "whole");
}
