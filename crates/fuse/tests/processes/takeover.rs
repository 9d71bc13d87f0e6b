//! A server is killed while requests are not answered, and another one continues to serve the
//! mount.
//!
//! This process holds the descriptor and opens no file of the mount.

use std::io::{IoSlice, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuse::{
    Device, Errno, FileHandle, FileOperation, FileSystem, Forgotten, KernelOptions, KernelSession,
    MountOptions, Negotiated, NodeAttributes, NodeEntry, NodeId, OpenFlags, Reply, Request,
    UnmountMode,
};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::parts::{Part, input_socket};

const CONTENT: &[u8] = b"what the file says";
const NAMES: [&str; 3] = ["read", "write", "lock"];
const TIMEOUT: Duration = Duration::from_mins(1);

/// Files with the same content in each server. Each program has its own file: in the kernel, a
/// reader that waits for a page blocks other readers of that page.
struct Files {
    /// The operation that is never answered.
    holds: String,
    held: Mutex<Vec<Reply>>,
}

fn attributes(node: NodeId) -> NodeAttributes {
    let is_root = node == NodeId::ROOT;
    NodeAttributes {
        inode: node.0,
        mode: if is_root { 0o040_755 } else { 0o100_644 },
        links: 1,
        size_bytes: if is_root { 0 } else { CONTENT.len() as u64 },
        block_bytes: 4096,
        ..NodeAttributes::default()
    }
}

fn entry(node: NodeId) -> NodeEntry {
    NodeEntry {
        node,
        generation: 0,
        attributes: attributes(node),
        entry_timeout: TIMEOUT,
        attributes_timeout: TIMEOUT,
    }
}

fn say(what: &str, request: &Request) {
    // The pipe is closed when the test has seen enough.
    let mut output = std::io::stdout().lock();
    let _closed = writeln!(output, "{what}{}", if request.is_resent() { " again" } else { "" });
}

impl FileSystem for Files {
    fn handle(&self, request: Request, reply: Reply) {
        let what = match request.operation() {
            FileOperation::Read { .. } => "read",
            FileOperation::Write { .. } => "write",
            FileOperation::SetLkW(_) => "lock",
            FileOperation::FSync { .. } => "fsync",
            _ => "",
        };
        if !what.is_empty() {
            say(what, &request);
        }
        if self.holds == "all" && !what.is_empty() {
            return self.held.lock().unwrap().push(reply);
        }
        match request.operation() {
            FileOperation::Lookup { name } => {
                match NAMES.into_iter().zip(2..).find(|(there, _)| *there == name) {
                    Some((_, number)) => reply.entry(&entry(NodeId(number))),
                    None => reply.error(Errno::ENOENT),
                }
            }
            FileOperation::GetAttr { .. } => reply.attributes(&attributes(request.node()), TIMEOUT),
            FileOperation::Open { .. } => {
                reply.opened(FileHandle(request.node().0), OpenFlags::none());
            }
            FileOperation::Read { .. } => reply.data(&[IoSlice::new(CONTENT)]),
            FileOperation::Write { data, .. } => {
                reply.written(u32::try_from(data.len()).unwrap());
            }
            FileOperation::SetLkW(_) if self.holds == "locks" => {
                let gone = Arc::new(Mutex::new(Some(reply)));
                let answer = Arc::clone(&gone);
                let reply = gone.lock().unwrap();
                // A request that was interrupted before is answered as soon as the lock is
                // released.
                let thread = move || {
                    let reply = answer.lock().unwrap().take().unwrap();
                    reply.error(Errno::EINTR);
                };
                reply.as_ref().unwrap().on_interrupt(move || {
                    std::thread::Builder::new().spawn(thread).unwrap();
                });
            }
            FileOperation::FSync { .. }
            | FileOperation::Flush { .. }
            | FileOperation::Release { .. }
            | FileOperation::SetLk(_)
            | FileOperation::SetLkW(_) => reply.ok(),
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn forget(&self, _nodes: Forgotten<'_>) {}

    fn destroyed(&self) {}
}

/// The role of a server: receives the device over its standard input, and starts or continues the
/// session.
pub(crate) fn serve(words: &[&str]) {
    let mut keeper = input_socket();
    let (device, negotiated) = Device::receive(&keeper).unwrap();
    let options = KernelOptions::default();
    let files = Arc::new(Files { holds: words[0].to_owned(), held: Mutex::default() });
    let session = match negotiated.as_slice() {
        [] => KernelSession::start(device, options, files),
        bytes => {
            let negotiated = Negotiated::from_bytes(bytes).unwrap();
            KernelSession::resume(device, negotiated, options, files)
        }
    };
    let session = session.unwrap();
    let bytes = session.negotiated().to_bytes();
    keeper.write_all(&[u8::try_from(bytes.len()).unwrap()]).unwrap();
    keeper.write_all(&bytes).unwrap();
    session.join();
}

/// The state of a keeper.
struct Keeper {
    device: Device,
    negotiated: Vec<u8>,
    folder: TempDir,
}

impl Keeper {
    fn new() -> Keeper {
        let folder = tempfile::tempdir().unwrap();
        let device = fuse::mount(folder.path(), &MountOptions::new("kept", "servant")).unwrap();
        Keeper { device, negotiated: Vec::new(), folder }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Starts a server, the first one or the next.
    fn server(&mut self, holds: &str) -> (Part, UnixStream) {
        let (server, mut socket) = Part::start_with_socket("serve", &[holds]);
        self.device.send(&socket, &self.negotiated).unwrap();
        let mut length = [0];
        socket.read_exact(&mut length).unwrap();
        let mut negotiated = vec![0; usize::from(length[0])];
        socket.read_exact(&mut negotiated).unwrap();
        assert!(self.negotiated.is_empty() || self.negotiated == negotiated);
        self.negotiated = negotiated;
        (server, socket)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Programs that still wait after a failed test get an error.
        let mode = if std::thread::panicking() { UnmountMode::Abort } else { UnmountMode::Lazy };
        let _unmounted = fuse::unmount(self.folder.path(), mode);
        let _gone = fuse::unmount(self.folder.path(), UnmountMode::Lazy);
    }
}

pub(crate) fn go_on() {
    let mut keeper = Keeper::new();
    let (mut first, _socket) = keeper.server("all");
    let mut programs = [
        Part::start("read", &[&keeper.file("read")]),
        Part::start("write", &[&keeper.file("write"), "new"]),
        Part::start("lock", &["fcntl", &keeper.file("lock")]),
    ];
    let mut held = [first.says(), first.says(), first.says()];
    held.sort();
    assert_eq!(held, ["lock", "read", "write"]);
    assert_eq!(programs[2].says(), "opened");
    first.signal(Signal::KILL);
    first.ends();
    std::thread::sleep(Duration::from_millis(100));
    assert!(programs.iter_mut().all(Part::waits), "they notice nothing");
    let (mut second, _socket) = keeper.server("nothing");
    assert_eq!(programs[0].says().as_bytes(), CONTENT);
    assert_eq!(programs[1].says(), "durable");
    assert_eq!(programs[2].says(), "locked");
    let mut again = [second.says(), second.says(), second.says(), second.says()];
    again.sort();
    assert_eq!(again, ["fsync", "lock again", "read again", "write again"]);
    programs[2].let_go();
    for program in &mut programs {
        assert!(program.ends().success());
    }
    fuse::unmount(keeper.folder.path(), UnmountMode::IfUnused).unwrap();
    assert!(second.ends().success(), "it ends with the mount");
}

pub(crate) fn can_be_killed() {
    let mut keeper = Keeper::new();
    let (mut first, _socket) = keeper.server("all");
    let mut waiter = Part::start("lock", &["flock", &keeper.file("lock")]);
    assert_eq!(waiter.says(), "opened");
    assert_eq!(first.says(), "lock");
    first.signal(Signal::KILL);
    first.ends();
    // The signal arrives while no server is running.
    waiter.signal(Signal::KILL);
    std::thread::sleep(Duration::from_millis(100));
    assert!(waiter.waits());
    let (second, _socket) = keeper.server("locks");
    assert_eq!(second.says(), "lock again");
    assert_eq!(waiter.ends().signal(), Some(9));
}
