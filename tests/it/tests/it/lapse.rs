//! Gateways that fall silent, killed or only stopped. Other gateways end their sessions and clean
//! up, and a stopped gateway that continues later changes nothing any more.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Client, Line, Request, read_answer};
use crate::content::bytes;
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_server};
use crate::load::{Load, Planted};
use crate::scale;
use crate::servers::{Gateway, wait_for};

on_the_drawn_server!(silent_sessions_are_ended_and_cleaned_up);

/// The least number of responses, however long they take.
const ENOUGH: u64 = 800;

/// The time limit for the end of a silent session: 30 seconds, the heartbeats around it, and some
/// more on a busy machine.
const ENDED_WITHIN: Duration = Duration::from_secs(50);

/// The time limit of the cleanup after that.
const SWEPT_WITHIN: Duration = Duration::from_mins(1);

/// Number of clients that put new keys through the gateway that will be stopped.
const WRITERS: usize = 8;

/// Length in bytes of an upload that stalls after one half.
const LARGE: usize = 800_000;

/// An upload that has sent half of its body.
struct Stalled {
    stream: TcpStream,
    path: String,
    rest: Vec<u8>,
}

impl Stalled {
    fn begin(client: &Client, path: &str) -> Stalled {
        let content = bytes(7, LARGE);
        let sealed = Request::new("PUT", path).body(&content[..]).sealed(client.signature());
        let mut stream = client.connect().expect("a connection");
        stream.write_all(&sealed.head).expect("the head is taken");
        stream.write_all(&content[..LARGE / 2]).expect("half of the body is taken");
        Stalled { stream, path: path.to_owned(), rest: content[LARGE / 2..].to_vec() }
    }

    /// Sends the rest. Returns the status, if a response arrives.
    fn finish(mut self) -> Option<u16> {
        let _ = self.stream.write_all(&self.rest);
        read_answer(&mut self.stream, "PUT").ok().map(|answer| answer.status)
    }
}

/// New keys with the status of each PUT; `None` if no response arrived.
type Written = Mutex<Vec<(String, Option<u16>)>>;

/// Puts new keys through the gateway that will be stopped, until `stop`.
fn write(client: &Client, writer: usize, round: u64, stop: &AtomicBool, written: &Written) {
    let mut line = Line::new(client);
    for at in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let path = format!("/box/written/{round}-{writer}-{at}");
        let size = if at % 3 == 0 { 30_000 } else { 300 };
        let put = Request::new("PUT", &path).body(bytes(at, size));
        let status = line.send(&put).ok().map(|answer| answer.status);
        written.lock().expect("no writer panics").push((path, status));
        if status != Some(200) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns all keys below `written/`, as listed by another gateway.
fn present(client: &Client) -> BTreeSet<String> {
    let keys = client.keys("box", "written/", 1000);
    keys.into_iter().map(|key| format!("/box/{key}")).collect()
}

/// Fails if an acknowledged key is missing in `then`, the listing after the session was ended. This
/// holds for responses before the stop and after the gateway continued. Returns the number of
/// acknowledged and of all writes.
fn is_as_told(written: &Written, then: &BTreeSet<String>) -> (usize, usize) {
    let written = written.lock().expect("no writer panics");
    for (path, status) in &*written {
        let lost = *status == Some(200) && !then.contains(path);
        assert!(!lost, "{path} was acknowledged, and is not there");
    }
    let acknowledged = written.iter().filter(|(_, status)| *status == Some(200)).count();
    (acknowledged, written.len())
}

/// Returns the number of sessions that this gateway has ended.
fn ended_by(gateway: &Gateway) -> usize {
    let log = gateway.log();
    log.lines().filter(|line| line.contains("a silent session was ended")).count()
}

/// One round: stops `stopped` and kills `killed`, under load and with uploads in flight. Returns
/// true if a write was interrupted.
fn lapse(fleet: &Fleet, survivor: &Gateway, load: &mut Load, round: u64) -> bool {
    let mut stopped = fleet.second().start();
    let mut killed = fleet.first.sibling("third").start();
    let before: BTreeSet<PathBuf> = fleet.first.block_files().into_iter().collect();
    let begin = |gateway: &Gateway, name: &str| {
        Stalled::begin(&gateway.client, &format!("/box/stalled/{round}-{name}"))
    };
    let uploads = [begin(&stopped, "stopped"), begin(&killed, "killed")];
    let staged = || -> BTreeSet<PathBuf> {
        let files = fleet.first.block_files().into_iter();
        files.filter(|file| !before.contains(file)).collect()
    };
    assert!(wait_for(Duration::from_secs(20), || staged().len() >= 8), "no block was staged");
    let staged = staged();
    let clients = [&survivor.client, &stopped.client, &killed.client].map(Client::clone);
    let (stop, written) = (&AtomicBool::new(false), &Written::default());
    let already = ended_by(survivor);
    let (then, took) = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let client = &clients[1];
            scope.spawn(move || write(client, writer, round, stop, written));
        }
        load.run(&clients, |progress| {
            progress.wait_for_more(200);
            stopped.child.signal(Signal::STOP);
            killed.child.kill();
            let silent = Instant::now();
            // The load continues through the remaining gateway.
            progress.wait_for_more(50);
            progress.wait_for_at_least(ENOUGH);
            progress.slow_down();
            let ended = wait_for(ENDED_WITHIN, || ended_by(survivor) >= already + 2);
            assert!(ended, "no session was ended:\n{}", survivor.log());
            let took = silent.elapsed();
            let then = present(&survivor.client);
            stop.store(true, Ordering::Relaxed);
            stopped.child.signal(Signal::CONT);
            let woken = || stopped.log().contains("this session has ended");
            assert!(wait_for(Duration::from_secs(20), woken), "{}", stopped.log());
            (then, took)
        })
    });
    let [mine, gone] = uploads;
    let path = mine.path.clone();
    assert_ne!(mine.finish(), Some(200), "{path} was acknowledged after the session had ended");
    assert_eq!(gone.finish(), None, "a killed gateway does not respond");
    let status = stopped.child.wait();
    assert_eq!(status.code(), Some(75), "it ends, and not as if all were well");
    let said = stopped.log();
    assert!(said.contains("its session was ended"), "it does not say why it ends:\n{said}");
    let (acknowledged, asked) = is_as_told(written, &then);
    assert_eq!(present(&survivor.client), then, "something was written after the end");
    survivor.client.get(&path).expect(404);
    let left = || staged.iter().filter(|file| file.exists()).count();
    let swept = wait_for(SWEPT_WITHIN, || left() == 0);
    assert!(swept, "{} of {} blocks are left:\n{}", left(), staged.len(), survivor.log());
    eprintln!(
        "{}: two silent sessions were ended within {took:?}, {} blocks of theirs were swept; of \
         {asked} writes {acknowledged} were acknowledged",
        fleet.engine.name(),
        staged.len()
    );
    let again = fleet.second().start();
    again.client.put("/box/written/again", b"again").expect(200);
    survivor.client.delete("/box/written/again").expect(204);
    again.stop();
    acknowledged < asked
}

/// Limit of the additional rounds until one interrupts a write. It is correct if all writes in
/// flight were committed just before the stop, so a round may interrupt none.
const ROUNDS_MAX: u64 = 5;

fn silent_sessions_are_ended_and_cleaned_up(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let survivor = fleet.first.start();
    survivor.client.put("/box", b"").expect(200);
    let mut load = Load::new("hot", Planted::None);
    let (mut round, mut is_cut) = (0, false);
    while round < scale::lapses() || !is_cut {
        assert!(round < scale::lapses() + ROUNDS_MAX, "nothing was under way when it was stopped");
        is_cut |= lapse(&fleet, &survivor, &mut load, round);
        round += 1;
    }
    load.read_all(std::slice::from_ref(&survivor.client));
    let figures = load.is_linearizable();
    eprintln!("{}: linearizable throughout: {figures}", engine.name());
    fleet.stop_and_check(vec![survivor]);
}
