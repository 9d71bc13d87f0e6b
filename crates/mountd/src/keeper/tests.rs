use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

/// Returns a request to serve a mount with a program, and the socket of its sender.
fn request(program: &str) -> (ReplaceRequest, UnixStream) {
    let (mut sender, socket) = UnixStream::pair().expect("sockets");
    sender.write_all(format!("{program}\0").as_bytes()).expect("the socket takes it");
    (ReplaceRequest::read(socket).expect("a request"), sender)
}

/// A keeper whose worker exits when it is asked to.
fn keeper() -> (Keeper, Receiver<Event>) {
    let (sender, events) = sync_channel(EVENTS_MAX);
    let (program, ledger) = (PathBuf::from("/bin/cat"), Ledger::make().expect("a ledger"));
    let handed = Handed { ledger: &ledger, device: None, listener: None };
    let worker = start(1, &program, &[], handed, &sender).expect("a worker");
    let keeper = Keeper {
        folder: PathBuf::new(),
        options: MountOptions::new("test", "test"),
        arguments: Vec::new(),
        listener: None,
        reload: Box::new(|| {}),
        must_reload: false,
        ledger,
        device: None,
        control: None,
        events: sender,
        program,
        replacing: None,
        worker,
        phase: Phase::Serving(Instant::now()),
        deadline: None,
        pause: PAUSE_MIN,
        unmounting: None,
        reported: None,
    };
    (keeper, events)
}

/// The worker fails during the handover, and another request arrives before the next one starts.
#[test]
fn a_request_after_a_failed_handover_does_not_replace_the_first() {
    let (mut keeper, _events) = keeper();
    let (first, mut sender) = request("/first");
    keeper.replace(first);
    assert!(matches!(keeper.phase, Phase::Stopping));
    let (second, mut refused) = request("/second");
    assert!(!keeper.replace_between_workers(second));
    let mut response = String::new();
    refused.read_to_string(&mut response).expect("a response");
    assert_eq!(response, NOT_NOW);
    assert_eq!(keeper.program, PathBuf::from("/first"));
    let previous = keeper.replacing.as_ref().map(|(previous, _)| previous.clone());
    assert_eq!(previous, Some(PathBuf::from("/bin/cat")), "a program that has served");
    // The first request gets its result when the next worker serves.
    keeper.handle_message(FromWorker::Serving);
    let mut response = String::new();
    sender.read_to_string(&mut response).expect("a response");
    assert_eq!(response, "done");
    keeper.worker.close_link();
}
