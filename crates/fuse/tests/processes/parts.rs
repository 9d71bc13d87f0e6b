//! The roles in which this program starts itself, and their control.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::process::{Pid, Signal, kill_process};

/// The time limit of each step.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A process in a role, and the lines that it prints. Dropping it kills the process.
pub(crate) struct Part {
    child: Child,
    lines: Receiver<String>,
}

impl Part {
    /// Starts a role. Its standard input stays open until the role is dropped.
    pub(crate) fn start(part: &str, words: &[&str]) -> Part {
        Part::start_with(part, words, Stdio::piped())
    }

    /// Starts a role with one end of a socket as its standard input.
    pub(crate) fn start_with_socket(part: &str, words: &[&str]) -> (Part, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        (Part::start_with(part, words, OwnedFd::from(theirs).into()), ours)
    }

    fn start_with(part: &str, words: &[&str], input: Stdio) -> Part {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(format!("--part-{part}")).args(words).stdin(input).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let listen = move || {
            // The test may have ended already.
            output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok());
        };
        std::thread::Builder::new().spawn(listen).unwrap();
        Part { child, lines }
    }

    /// Returns the next line that the process prints.
    #[track_caller]
    pub(crate) fn says(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it says something")
    }

    /// Returns true if the process is running and has printed nothing.
    pub(crate) fn waits(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none() && self.lines.try_recv().is_err()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Closes the standard input of the process.
    pub(crate) fn let_go(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until the process has ended.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Waits for an event that must come soon.
#[track_caller]
pub(crate) fn eventually(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// Runs a role.
pub(crate) fn play(part: &str, words: &[String]) {
    let word = |index: usize| words[index].as_str();
    match part {
        "lock" => lock(word(0), Path::new(word(1))),
        "lock-with-handler" => {
            ctrlc::set_handler(|| say("handled")).unwrap();
            lock(word(0), Path::new(word(1)));
        }
        "read" => {
            let mut content = String::new();
            File::open(word(0)).unwrap().read_to_string(&mut content).unwrap();
            say(&content);
        }
        "write" => {
            let mut file = OpenOptions::new().write(true).open(word(0)).unwrap();
            file.write_all(word(1).as_bytes()).unwrap();
            file.sync_all().unwrap();
            say("durable");
        }
        "serve" => crate::takeover::serve(&words.iter().map(String::as_str).collect::<Vec<_>>()),
        "mount" => crate::unprivileged::play(Path::new(word(0))),
        other => panic!("no part is called {other}"),
    }
}

/// Takes a lock and holds it until the standard input ends.
fn lock(kind: &str, path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    say("opened");
    let taken = match kind {
        "flock" => flock(&file, FlockOperation::LockExclusive),
        "fcntl" => fcntl_lock(&file, FlockOperation::LockExclusive),
        other => panic!("no lock is called {other}"),
    };
    say(&match taken {
        Ok(()) => "locked".to_owned(),
        Err(error) => format!("{error:?}"),
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

/// Returns the socket that is the standard input.
pub(crate) fn input_socket() -> UnixStream {
    UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap())
}
