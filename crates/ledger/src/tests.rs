use std::fs::File;
use std::os::fd::OwnedFd;

use record::{Ino, Nonce};

use super::*;
use crate::layout::LOGS_AT;

/// Opens the ledger as the next worker.
fn next_worker(file: &File) -> Ledger {
    Ledger::open(OwnedFd::from(file.try_clone().unwrap())).unwrap()
}

#[test]
fn new_ledger_is_empty() {
    let file = Ledger::make().unwrap();
    let ledger = next_worker(&file);
    assert_eq!((ledger.worker(), ledger.session().unwrap(), ledger.slots()), (1, None, 0));
    assert!(ledger.inherited_handles().is_empty() && ledger.held_locks().is_empty());
    assert!(ledger.inherited_logs().is_empty() && ledger.in_doubt().is_empty());
    assert_eq!(ledger.negotiated().unwrap(), None);
}

#[test]
fn header_fields_survive_a_worker() {
    let file = Ledger::make().unwrap();
    let first = next_worker(&file);
    first.set_session(Nonce([7; 10])).unwrap();
    first.set_slots(9).unwrap();
    first.set_negotiated(b"negotiated").unwrap();
    assert_eq!(first.reserve_blocks().unwrap(), 0);
    let second = next_worker(&file);
    assert_eq!((second.worker(), second.slots()), (2, 9));
    assert_eq!(second.session().unwrap(), Some(Nonce([7; 10])));
    assert_eq!(second.negotiated().unwrap().unwrap(), b"negotiated");
    assert_eq!(second.reserve_blocks().unwrap(), BLOCKS_RESERVED);
    second.set_session(Nonce([8; 10])).unwrap();
    assert_eq!((second.slots(), second.reserve_blocks().unwrap()), (0, 0));
}

#[test]
fn a_ledger_of_another_release_is_refused() {
    use std::os::unix::fs::FileExt;
    let file = Ledger::make().unwrap();
    file.write_all_at(b"ashlar\x02\x00", 0).unwrap();
    let refused = Ledger::open(OwnedFd::from(file));
    assert!(matches!(refused, Err(LedgerError::Format { .. })));
}

#[tokio::test]
async fn journal_returns_executed_requests() {
    let file = Ledger::make().unwrap();
    let first = next_worker(&file);
    let notes = [2, 4, 6, 8, 10].map(async |request| first.note(request).await.unwrap());
    let [unsent, sent, lost, done, answered] = futures_in_order(notes).await;
    for (note, step) in [(&sent, 3), (&lost, 5), (&done, 7), (&answered, 9)] {
        note.creates(Ino(100 + step));
        note.sent(1, step).unwrap();
    }
    done.settled(true);
    answered.settled(true);
    drop(answered);
    // The worker is killed: nothing is dropped in order.
    std::mem::forget((unsent, sent, lost, done, first));
    let second = next_worker(&file);
    let mut in_doubt = second.in_doubt();
    in_doubt.sort_by_key(|doubt| doubt.request);
    let doubt = |request, step| InDoubt { request, slot: 1, step };
    assert_eq!(in_doubt, [doubt(4, 3), doubt(6, 5)]);
    second.settle_in_doubt(|doubt| (doubt.request == 4).then_some(true)).unwrap();
    assert_eq!(second.in_doubt(), [doubt(6, 5)]);
    second.settle_in_doubt(|_| Some(false)).unwrap();
    let (made, note) = second.take_executed(4).unwrap();
    assert_eq!(made, Ino(103));
    // A worker that is killed before it replies leaves the same state to the next one.
    std::mem::forget((note, second));
    let third = next_worker(&file);
    assert!(third.in_doubt().is_empty());
    third.settle_in_doubt(|_| Some(false)).unwrap();
    assert_eq!(third.take_executed(4).map(|(node, _)| node), Some(Ino(103)));
    assert_eq!(third.take_executed(8).map(|(node, _)| node), Some(Ino(107)));
    assert!([2, 6, 10].map(|request| third.take_executed(request).is_some()) == [false; 3]);
    assert!(next_worker(&file).in_doubt().is_empty());
}

async fn futures_in_order<const N: usize>(futures: [impl Future<Output = Note>; N]) -> [Note; N] {
    let mut notes = [const { Note::none() }; N];
    for (note, future) in notes.iter_mut().zip(futures) {
        *note = future.await;
    }
    notes
}

#[tokio::test]
async fn unclaimed_entries_free_journal_capacity() {
    let file = Ledger::make().unwrap();
    let first = next_worker(&file);
    for request in 1..=u64::from(JOURNAL_MAX) {
        let note = first.note(request).await.unwrap();
        note.sent(0, request).unwrap();
        std::mem::forget(note);
    }
    let second = next_worker(&file);
    second.settle_in_doubt(|_| Some(true)).unwrap();
    let full = tokio::time::timeout(std::time::Duration::from_millis(10), second.note(1 << 40));
    assert!(full.await.is_err(), "there is no room");
    second.forget_unclaimed();
    second.note(1 << 40).await.unwrap();
}

#[test]
fn handles_survive_until_closed() {
    let file = Ledger::make().unwrap();
    let first = next_worker(&file);
    let kept = |handle| HandleEntry { handle, ino: Ino(handle + 50), request: 9, directory: false };
    for handle in 1..=3000 {
        first.insert_handle(kept(handle)).unwrap();
    }
    (1..=3000).filter(|handle| handle % 1000 != 0).for_each(|handle| first.remove_handle(handle));
    first.remove_handle(77);
    let second = next_worker(&file);
    assert_eq!(second.inherited_handles(), [kept(1000), kept(2000), kept(3000)]);
    second.insert_handle(kept(4000)).unwrap();
    second.remove_handle(2000);
    let mut inherited = next_worker(&file).inherited_handles().to_vec();
    inherited.sort_by_key(|kept| kept.handle);
    assert_eq!(inherited, [kept(1000), kept(3000), kept(4000)]);
}

#[test]
fn locks_survive_until_released() {
    let file = Ledger::make().unwrap();
    let first = next_worker(&file);
    let lock = |start| LockEntry {
        start,
        last: start + 9,
        owner: 5,
        pid: 6,
        exclusive: start % 20 == 0,
        flock: false,
    };
    first.set_locks(Ino(1), &[lock(0), lock(10), lock(30)]).unwrap();
    first.set_locks(Ino(2), &[lock(50)]).unwrap();
    first.set_locks(Ino(1), &[lock(10), lock(20)]).unwrap();
    first.set_locks(Ino(2), &[]).unwrap();
    let mut kept = next_worker(&file).held_locks();
    kept.iter_mut().for_each(|(_, locks)| locks.sort_by_key(|lock| lock.start));
    assert_eq!(kept, [(Ino(1), vec![lock(10), lock(20)])]);
}

/// Returns the kind and the bytes of a change.
type Change = (u64, Vec<u8>);

/// Returns all changes in the log that the next worker reads.
fn changes(file: &File) -> Vec<(Ino, Vec<Change>)> {
    let ledger = next_worker(file);
    let mut all = Vec::new();
    for mut log in ledger.inherited_logs() {
        let mut changes = Vec::new();
        while let Some(change) = ledger.next_change(&mut log).unwrap() {
            changes.push((change.kind, change.bytes));
        }
        all.push((log.ino(), changes));
    }
    all
}

#[test]
fn log_contains_uncommitted_changes() {
    let file = Ledger::make().unwrap();
    let ledger = next_worker(&file);
    let mut log = ledger.begin_log(Ino(9)).unwrap();
    ledger.log(&mut log, 1, 2, [0; CHANGE_WORDS], &vec![1; 100_000]).unwrap();
    ledger.log(&mut log, 2, 4, [0; CHANGE_WORDS], b"").unwrap();
    let flushed = log.end();
    ledger.log(&mut log, 3, 6, [0; CHANGE_WORDS], b"later").unwrap();
    let first = (1, vec![1; 100_000]);
    assert_eq!(changes(&file), [(Ino(9), vec![first, (2, vec![]), (3, b"later".to_vec())])]);
    ledger.trim_log(&mut log, flushed).unwrap();
    assert_eq!(changes(&file), [(Ino(9), vec![(3, b"later".to_vec())])]);
    ledger.end_log(&log);
    assert!(changes(&file).is_empty());
    // Old bytes of a region are not valid in its next generation.
    let mut log = ledger.begin_log(Ino(10)).unwrap();
    assert_eq!(changes(&file), [(Ino(10), vec![])]);
    ledger.log(&mut log, 4, 8, [0; CHANGE_WORDS], b"x").unwrap();
    assert_eq!(changes(&file), [(Ino(10), vec![(4, b"x".to_vec())])]);
}

/// Trims end within pages. The log always has one change, so it needs two pages at most.
#[test]
fn trimmed_log_keeps_no_pages() {
    use std::os::unix::fs::MetadataExt;
    let file = Ledger::make().unwrap();
    let ledger = next_worker(&file);
    let kibibytes = || file.metadata().unwrap().blocks() / 2;
    let change = vec![1; 3_000];
    let mut log = ledger.begin_log(Ino(9)).unwrap();
    ledger.log(&mut log, 1, 2, [0; CHANGE_WORDS], &change).unwrap();
    let before = kibibytes();
    for _ in 0..100 {
        let flushed = log.end();
        ledger.log(&mut log, 1, 2, [0; CHANGE_WORDS], &change).unwrap();
        ledger.trim_log(&mut log, flushed).unwrap();
    }
    assert!(kibibytes() <= before + 8, "{before} KiB became {} KiB", kibibytes());
    assert_eq!(changes(&file), [(Ino(9), vec![(1, change)])]);
    ledger.end_log(&log);
    assert!(kibibytes() < before, "{before} KiB became {} KiB", kibibytes());
}

#[test]
fn incomplete_change_is_ignored() {
    use std::os::unix::fs::FileExt;
    let file = Ledger::make().unwrap();
    let ledger = next_worker(&file);
    let mut log = ledger.begin_log(Ino(9)).unwrap();
    ledger.log(&mut log, 1, 2, [0; CHANGE_WORDS], b"whole").unwrap();
    ledger.log(&mut log, 2, 4, [0; CHANGE_WORDS], b"cut").unwrap();
    file.write_all_at(&[0; 8], LOGS_AT + log.end() - 8).unwrap();
    assert_eq!(changes(&file), [(Ino(9), vec![(1, b"whole".to_vec())])]);
    // The next worker continues at the end of the log.
    let next = next_worker(&file);
    let mut log = next.inherited_logs().remove(0);
    while next.next_change(&mut log).unwrap().is_some() {}
    next.log(&mut log, 3, 6, [0; CHANGE_WORDS], b"on").unwrap();
    assert_eq!(changes(&file), [(Ino(9), vec![(1, b"whole".to_vec()), (3, b"on".to_vec())])]);
}
