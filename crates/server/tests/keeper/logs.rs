//! The logs and the listener of a mount: rotation by SIGHUP, lines of the access log, and metrics
//! that outlive a worker.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::kept::{
    Kept, PATIENCE, can_mount, eventually, is_mounted, make_volume, program, signal,
};

/// Returns the process id of the keeper in the background that has this folder among its arguments.
fn keeper_of(folder: &Path) -> u32 {
    let at = folder.to_str().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&str> = line.split('\0').collect();
        if words.contains(&at) && words.contains(&"--detached") && !words.contains(&"--worker") {
            found.push(id);
        }
    }
    assert_eq!(found.len(), 1, "keepers of {at}");
    found[0]
}

/// A mount in the background, which is unmounted when it is dropped.
struct Background<'a>(&'a Path);

impl Drop for Background<'_> {
    fn drop(&mut self) {
        if is_mounted(self.0) {
            let mut command = Command::new("umount");
            let _gone = command.arg("-l").arg(self.0).stderr(Stdio::null()).status();
        }
    }
}

/// logrotate renames the logs, creates new ones and sends SIGHUP, while the mount is in use.
#[test]
fn a_mount_in_the_background_goes_on_in_new_logs_after_sighup() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (at, data) = (folder.path().join("mount"), folder.path().join("data"));
    fs::create_dir(&at).unwrap();
    make_volume(&data, None, &[]);
    let config = folder.path().join("ashlar.toml");
    fs::write(&config, "log = \"info\"\n").unwrap();
    let access = folder.path().join("access.log");
    let mut command = program();
    command.arg("--config").arg(&config).arg("mount").arg(&at);
    command.arg("--data-dir").arg(&data).arg("--access-log").arg(&access);
    let mounted = command.output().unwrap();
    assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
    let background = Background(&at);
    let keeper = keeper_of(&at);
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let log = data.join("mount.log");
    eventually("the begin has a line", || read(&access).ends_with('\n'));
    let begun = read(&access);
    for part in ["\"kind\":\"mount-begin\"", "\"operation\":\"Mount\"", "\"session\":", "uid=0"] {
        assert!(begun.contains(part), "{part} in {begun}");
    }
    assert!(begun.contains(&format!("\"target\":{:?}", at.to_str().unwrap())), "{begun}");

    for (path, mode) in [(&log, 0o600), (&access, 0o640)] {
        fs::rename(path, path.with_extension("log.1")).unwrap();
        fs::OpenOptions::new().create_new(true).write(true).mode(mode).open(path).unwrap();
    }
    fs::write(&config, "log = \"debug\"\n").unwrap();
    signal(keeper, Signal::HUP);
    // The keeper and the worker each open the log again, and each has the new level.
    let in_new_log = |text: &str| read(&log).matches(text).count();
    eventually("both continue in the new log", || {
        in_new_log("opened the log again") == 2 && in_new_log("changed the log level") == 2
    });
    // The writer of the access log answers a little later.
    eventually("the worker opens the access log again", || {
        in_new_log("opened the access log again") == 1
    });
    let old = log.with_extension("log.1");
    assert!(!read(&old).contains("again"), "{}", read(&old));
    assert!(is_mounted(&at), "SIGHUP ends no mount: {}", read(&log));
    fs::create_dir(at.join("bucket")).unwrap();
    fs::write(at.join("bucket/file"), "content").unwrap();
    assert_eq!(read(&at.join("bucket/file")), "content");

    signal(keeper, Signal::TERM);
    eventually("it is unmounted", || !is_mounted(&at));
    eventually("the end has a line", || read(&access).contains("\"kind\":\"mount-end\""));
    assert!(read(&access).contains("\"operation\":\"Unmount\""), "{}", read(&access));
    assert!(!read(&access).contains("mount-begin"), "the old log has the line of the begin");
    drop(background);
}

#[test]
fn sighup_of_keeper_and_worker_ends_neither() {
    if !can_mount() {
        return;
    }
    let mut kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    for _ in 0..5 {
        signal(kept.keeper(), Signal::HUP);
        signal(kept.worker().unwrap(), Signal::HUP);
        thread::sleep(Duration::from_millis(20));
    }
    eventually("the level is read again", || kept.log().contains("the log level is unchanged"));
    fs::write(kept.path("bucket/file"), "content").unwrap();
    assert_eq!(kept.workers(), 1, "{}", kept.log());
    assert!(kept.is_mounted() && kept.worker().is_some(), "{}", kept.log());
    assert!(kept.end().success(), "{}", kept.log());
}

/// Returns the response to a GET of a path, on a connection of its own.
fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

#[test]
fn metrics_and_health_of_a_mount_are_served_across_workers() {
    if !can_mount() {
        return;
    }
    let mut kept = Kept::new(None).anew_with(&["--admin-listen", "127.0.0.1:0"]);
    let log = kept.log();
    let (_, rest) = log.rsplit_once("admin=\"http://").expect("the address is in the log");
    let address = rest.split_once('"').unwrap().0.to_owned();
    for path in ["/-/healthy", "/-/ready", "/metrics", "/status"] {
        let response = get(&address, path).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 "), "{path}: {response}");
    }
    // Clients connect while the worker is killed and the next one starts.
    let (stop, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut served = 0;
            while !stop.load(Ordering::Relaxed) {
                match get(&address, "/-/healthy") {
                    Ok(response) if response.starts_with("HTTP/1.1 200 ") => served += 1,
                    // The killed worker had accepted this connection.
                    Ok(response) if response.is_empty() => {}
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
                    _ => failed.store(true, Ordering::Relaxed),
                }
                thread::sleep(Duration::from_millis(1));
            }
            served
        });
        kept.kill_worker();
        let response = get(&address, "/-/ready").unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        assert!(client.join().unwrap() > 0, "no request was served");
    });
    assert!(!failed.load(Ordering::Relaxed), "a connection was refused");
    // A second mount cannot have the same address, and its command says so.
    let other = tempfile::tempdir().unwrap();
    let mut command = program();
    command.arg("mount").arg(other.path()).args(["--admin-listen", &address]);
    command.arg("--data-dir").arg(kept.folder.path().join("data"));
    let refused = command.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("choose a free address"), "{said}");
    assert!(kept.end().success(), "{}", kept.log());
}

#[test]
fn stats_and_profile_show_the_operations_of_a_mount() {
    if !can_mount() {
        return;
    }
    let mut kept = Kept::new(None);
    fs::create_dir(kept.path("bucket")).unwrap();
    let run = |arguments: &[&str], folder: &Path| {
        let mut command = program();
        let output = command.args(arguments).arg(folder).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let stop = AtomicBool::new(false);
    let (stats, profile) = thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                fs::write(kept.path(&format!("bucket/{number}")), "content").unwrap();
                fs::read(kept.path("bucket/none")).unwrap_err();
            }
        });
        let stats = run(&["stats", "--once"], &kept.path(""));
        let profile = run(&["profile", "--seconds", "1", "--json"], &kept.path(""));
        stop.store(true, Ordering::Relaxed);
        (stats, profile)
    });
    assert!(stats.0 && profile.0, "{stats:?} {profile:?}");
    // In a pipe the line is JSON.
    let line: serde_json::Value = serde_json::from_str(&stats.1).unwrap();
    for (value, name) in [
        (&line["operations"]["WRITE"], "WRITE"),
        (&line["operations"]["LOOKUP"], "LOOKUP"),
        (&line["errors"], "errors"),
        (&line["written_bytes"], "written_bytes"),
    ] {
        assert!(value.as_u64().is_some_and(|count| count > 0), "{name} of {line:#}");
    }
    assert!(line["latency_seconds"]["p50"].as_f64().is_some_and(|p50| p50 > 0.0), "{line:#}");
    let observed: serde_json::Value = serde_json::from_str(&profile.1).unwrap();
    let lookup = &observed["operations"]["LOOKUP"];
    assert!(lookup["errors"].as_u64().is_some_and(|errors| errors > 0), "{observed:#}");

    let (ended, said) = run(&["stats", "--once"], kept.folder.path());
    assert!(!ended && said.contains("it is no mount of Ashlar"), "{said}");
    assert!(kept.end().success(), "{}", kept.log());
}
