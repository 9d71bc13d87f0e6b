//! The session with a simulated kernel, over a socket that keeps message boundaries as the device
//! does. So these tests can send messages that no real kernel sends, and check the bytes of each
//! reply.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

mod kernel;

use std::io::IoSlice;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuse::{
    DirectoryBuffer, Errno, FileLock, FileOperation, FileSystem, Forgotten, KernelOptions,
    KernelSession, LockKind, NodeId, Reply, Request, SessionEnd,
};

use kernel::{EAGAIN, EIO, ENOSYS, EPROTO, Kernel, RESEND, opcode};

/// Passes each request to the test.
struct Handing {
    requests: Mutex<SyncSender<(Request, Reply)>>,
    forgotten: Mutex<Vec<(NodeId, u64)>>,
    ended: Mutex<SyncSender<()>>,
}

impl FileSystem for Handing {
    fn handle(&self, request: Request, reply: Reply) {
        if let FileOperation::Lookup { name } = request.operation() {
            assert_ne!(name, "panic", "as asked");
        }
        self.requests.lock().unwrap().send((request, reply)).unwrap();
    }

    fn forget(&self, nodes: Forgotten<'_>) {
        self.forgotten.lock().unwrap().extend(nodes);
    }

    fn destroyed(&self) {
        self.ended.lock().unwrap().send(()).unwrap();
    }
}

/// A session that has started, with both ends.
struct Stage {
    kernel: Kernel,
    session: KernelSession,
    files: Arc<Handing>,
    requests: Receiver<(Request, Reply)>,
    ended: Receiver<()>,
}

fn stage() -> Stage {
    let (kernel, device) = Kernel::new();
    let (sender, requests) = sync_channel(16);
    let (ended_sender, ended) = sync_channel(16);
    let files = Arc::new(Handing {
        requests: Mutex::new(sender),
        forgotten: Mutex::default(),
        ended: Mutex::new(ended_sender),
    });
    kernel.send(opcode::INIT, 2, &kernel::init_body(7, 45));
    let session = KernelSession::start(device, KernelOptions::default(), files.clone()).unwrap();
    let (error, unique, body) = kernel.receive();
    assert_eq!((error, unique, body.len()), (0, 2, 64));
    Stage { kernel, session, files, requests, ended }
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Stage {
    fn request(&self) -> (Request, Reply) {
        self.requests.recv_timeout(PATIENCE).unwrap()
    }
}

#[test]
fn reply_of_several_buffers_is_one_message() {
    let stage = stage();
    stage.kernel.send(opcode::READ, 4, &[0; 40]);
    let (request, reply) = stage.request();
    assert!(matches!(request.operation(), FileOperation::Read { .. }));
    let parts: Vec<_> = (0..40_u8).map(|byte| [byte; 3]).collect();
    let few: Vec<_> = parts[..3].iter().map(|part| IoSlice::new(part)).collect();
    reply.data(&few);
    assert_eq!(stage.kernel.receive(), (0, 4, parts[..3].concat()));
    // More parts than fit on the stack, and more than the system takes in one call.
    for count in [15, 16, 40, 1023, 1024, 3000] {
        stage.kernel.send(opcode::READ, 6, &[0; 40]);
        let slices: Vec<_> = (0..count).map(|index| IoSlice::new(&parts[index % 40])).collect();
        stage.request().1.data(&slices);
        let expected: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(stage.kernel.receive(), (0, 6, expected));
    }
}

#[test]
fn malformed_request_fails_and_the_session_continues() {
    let stage = stage();
    // A WRITE that announces more data than it has, a name without an end, a truncated struct.
    let mut write = [0; 40];
    write[16] = 200;
    for (unique, opcode, body) in [
        (10, opcode::WRITE, &write[..]),
        (12, opcode::LOOKUP, b"no end"),
        (14, opcode::SETLKW, b"short"),
    ] {
        stage.kernel.send(opcode, unique, body);
        assert_eq!(stage.kernel.receive(), (EIO, unique, Vec::new()));
    }
    // Without a header there is no request to reply to, and FORGET has no reply.
    stage.kernel.send_raw(b"not even a header");
    stage.kernel.send(opcode::FORGET, 16, b"");
    stage.kernel.send(opcode::LOOKUP, 18, b"fine\0");
    stage.request().1.error(Errno::ENOENT);
    assert_eq!(stage.kernel.receive(), (-2, 18, Vec::new()));
    assert_eq!(stage.session.counters().malformed, 5);
}

#[test]
fn a_reply_that_is_dropped_answers_eio_and_is_counted() {
    let stage = stage();
    stage.kernel.send(opcode::STATFS, 20, b"");
    drop(stage.request());
    assert_eq!(stage.kernel.receive(), (EIO, 20, Vec::new()));
    assert_eq!(stage.session.counters().unanswered, 1);
    assert_eq!(stage.session.in_flight(), 0);
}

#[test]
fn panicking_handler_answers_eio_and_the_session_continues() {
    let stage = stage();
    for unique in [22, 24, 26] {
        stage.kernel.send(opcode::LOOKUP, unique, b"panic\0");
        assert_eq!(stage.kernel.receive(), (EIO, unique, Vec::new()));
    }
    stage.kernel.send(opcode::STATFS, 28, b"");
    stage.request().1.error(Errno::ENOSYS);
    assert_eq!(stage.kernel.receive(), (ENOSYS, 28, Vec::new()));
    // The panic is counted after the reply was sent.
    assert_eq!(stage.session.drain(PATIENCE), 0);
    stage.kernel.end();
    stage.session.join();
    assert_eq!(stage.session.counters().panics, 3);
}

#[test]
fn an_unknown_operation_is_answered_without_the_file_system() {
    let stage = stage();
    stage.kernel.send(4000, 30, b"whatever");
    assert_eq!(stage.kernel.receive(), (ENOSYS, 30, Vec::new()));
    assert!(stage.requests.try_recv().is_err());
}

#[test]
fn early_interrupt_is_requested_again() {
    let stage = stage();
    stage.kernel.send(opcode::INTERRUPT, 33, &32_u64.to_ne_bytes());
    assert_eq!(stage.kernel.receive(), (EAGAIN, 33, Vec::new()));
}

#[test]
fn interrupt_without_an_action_is_ignored() {
    let stage = stage();
    stage.kernel.send(opcode::STATFS, 34, b"");
    let (_request, reply) = stage.request();
    stage.kernel.send(opcode::INTERRUPT, 35, &34_u64.to_ne_bytes());
    stage.kernel.send(opcode::INTERRUPT, 37, &36_u64.to_ne_bytes());
    assert_eq!(stage.kernel.receive(), (EAGAIN, 37, Vec::new()), "no word of the first");
    reply.error(Errno::EIO);
    assert_eq!(stage.kernel.receive(), (EIO, 34, Vec::new()));
}

#[test]
fn an_interrupt_runs_the_action_of_its_request_that_was_resent() {
    let stage = stage();
    let unique = 0x28 | RESEND;
    stage.kernel.send(opcode::SETLKW, unique, &kernel::lock_body());
    let (request, reply) = stage.request();
    assert!(request.is_resent());
    let (sender, interrupted) = sync_channel(1);
    reply.on_interrupt(move || sender.send(()).unwrap());
    assert!(interrupted.try_recv().is_err());
    stage.kernel.send(opcode::INTERRUPT, unique | 1, &unique.to_ne_bytes());
    interrupted.recv_timeout(PATIENCE).unwrap();
    reply.error(Errno::EINTR);
    // The reply has the bit unchanged.
    assert_eq!(stage.kernel.receive(), (-4, unique, Vec::new()));
    assert_eq!(stage.session.counters().interrupts, 1);
}

#[test]
fn forget_and_batch_forget_reach_the_file_system() {
    let stage = stage();
    stage.kernel.send(opcode::FORGET, 42, &3_u64.to_ne_bytes());
    let numbers = [2_u64, 10, 1, 20, 5].map(u64::to_ne_bytes).concat();
    stage.kernel.send(opcode::BATCH_FORGET, 44, &numbers);
    stage.kernel.end();
    stage.session.join();
    let mut forgotten = stage.files.forgotten.lock().unwrap().clone();
    forgotten.sort();
    let expected = [(kernel::NODE, 3), (10, 1), (20, 5)].map(|(node, count)| (NodeId(node), count));
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(forgotten, expected);
}

#[test]
fn destroyed_is_called_once_after_all_requests() {
    let stage = stage();
    stage.kernel.send(opcode::STATFS, 46, b"");
    let (_request, reply) = stage.request();
    stage.kernel.end();
    assert_eq!(stage.session.join(), SessionEnd::Unmounted);
    stage.ended.recv_timeout(PATIENCE).unwrap();
    assert!(stage.ended.try_recv().is_err());
    // A late reply finds no request in the kernel, which is no error.
    reply.error(Errno::EIO);
    assert_eq!(stage.session.drain(PATIENCE), 0);
}

#[test]
fn pending_write_does_not_block_readers() {
    let stage = stage();
    let mut write = vec![0; 40];
    write[16..20].copy_from_slice(&100_000_u32.to_ne_bytes());
    write.extend_from_slice(&vec![7; 100_000]);
    stage.kernel.send(opcode::WRITE, 48, &write);
    let (request, reply) = stage.request();
    let data = request.into_write_data().unwrap();
    for unique in (50..80).step_by(2) {
        stage.kernel.send(opcode::WRITE, unique, &write);
        stage.request().1.written(100_000);
        assert_eq!(stage.kernel.receive().1, unique);
    }
    assert!(data.len() == 100_000 && data.iter().all(|byte| *byte == 7));
    reply.written(100_000);
    assert_eq!(stage.kernel.receive().1, 48);
}

#[test]
fn replies_have_the_expected_bytes() {
    let stage = stage();
    let ask = |opcode: u32, body: &[u8]| {
        stage.kernel.send(opcode, 90, body);
        stage.request().1
    };
    let answer = || {
        let (error, unique, body) = stage.kernel.receive();
        assert_eq!((error, unique), (0, 90));
        body
    };
    ask(opcode::COPY_FILE_RANGE, &[0; 56]).copied(5);
    assert_eq!(answer(), [5, 0, 0, 0, 0, 0, 0, 0]);
    ask(opcode::COPY_FILE_RANGE_64, &[0; 56]).copied((7 << 32) | 5);
    assert_eq!(answer(), [5, 0, 0, 0, 7, 0, 0, 0]);
    let lock = FileLock { start: 1, end: 2, kind: LockKind::Exclusive, pid: 3 };
    ask(opcode::GETLK, &kernel::lock_body()).lock(&lock);
    let expected = [&1_u64.to_ne_bytes()[..], &2_u64.to_ne_bytes(), &[1, 0, 0, 0, 3, 0, 0, 0]];
    assert_eq!(answer(), expected.concat());
    ask(opcode::LOOKUP, b"a\0").no_entry(Duration::new(2, 9));
    let entry = answer();
    assert_eq!((entry.len(), &entry[..8], entry[16], entry[32]), (128, &[0; 8][..], 2, 9));
    ask(opcode::STATFS, b"").directory(&DirectoryBuffer::new(0));
    assert!(answer().is_empty());
}

#[test]
fn too_old_kernel_gets_eproto() {
    let (kernel, device) = Kernel::new();
    let (sender, _requests) = sync_channel(1);
    let (ended, _ended) = sync_channel(1);
    let files = Arc::new(Handing {
        requests: Mutex::new(sender),
        forgotten: Mutex::default(),
        ended: Mutex::new(ended),
    });
    kernel.send(opcode::INIT, 2, &kernel::init_body(7, 12));
    let refused = KernelSession::start(device, KernelOptions::default(), files).unwrap_err();
    assert!(refused.to_string().contains("FUSE 7.12"), "{refused}");
    assert_eq!(kernel.receive(), (EPROTO, 2, Vec::new()));
}
