use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

const NAME: [u8; NAME_BYTES] = [0xab; NAME_BYTES];

/// Returns the path of a folder whose sockets have too long paths for their addresses.
fn long(folder: &Path) -> PathBuf {
    let long = folder.join("a".repeat(120)).join("b".repeat(120));
    fs::create_dir_all(&long).unwrap();
    long
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_socket_is_for_its_user_alone_and_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _listener) = SocketFile::listen(folder.path(), NAME).unwrap();
    assert_eq!(names(folder.path()), ["peer-abababababababab.sock"]);
    let mode = fs::metadata(file.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(connect(file.path()).is_ok());
    drop(file);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_long_path_is_bound_and_reached() {
    let folder = tempfile::tempdir().unwrap();
    let long = long(folder.path());
    let (file, listener) = SocketFile::listen(&long, NAME).unwrap();
    assert!(SocketAddrUnix::new(file.path()).is_err(), "the path does not fit into an address");
    assert_eq!(names(&long), ["peer-abababababababab.sock"]);
    let stream = connect(file.path()).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    drop(stream);
    assert_eq!(accepted.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_relative_folder_gives_an_absolute_path() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let relative = folder.path().strip_prefix(std::env::current_dir().unwrap());
    let relative = relative.unwrap_or(folder.path());
    let (file, _listener) = SocketFile::listen(relative, NAME).unwrap();
    assert!(file.path().is_absolute());
}

#[test]
fn sockets_of_ended_processes_are_removed_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (live, _listener) = SocketFile::listen(folder.path(), NAME).unwrap();
    let stale = |number: u8| {
        let (file, _listener) = SocketFile::listen(folder.path(), [number; NAME_BYTES]).unwrap();
        // The process ends without removing its file.
        std::mem::forget(file);
    };
    (1..=3).for_each(stale);
    fs::write(folder.path().join("peer-notes.sock"), b"").unwrap();
    fs::write(folder.path().join("config.toml"), b"").unwrap();
    assert_eq!(names(folder.path()).len(), 6);
    remove_stale(folder.path());
    assert_eq!(
        names(folder.path()),
        ["config.toml", "peer-abababababababab.sock", "peer-notes.sock"]
    );
    assert!(connect(live.path()).is_ok());
}

#[test]
fn one_session_removes_a_limited_number_of_files() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..STALE_REMOVED_MAX as u64 + 5 {
        let (file, _listener) = SocketFile::listen(folder.path(), number.to_be_bytes()).unwrap();
        std::mem::forget(file);
    }
    remove_stale(folder.path());
    assert_eq!(names(folder.path()).len(), 5);
}

#[test]
fn a_socket_with_a_full_queue_is_not_stale() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _listener) = SocketFile::listen(folder.path(), NAME).unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match connect(file.path()) {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    remove_stale(folder.path());
    assert!(file.path().exists());
}

#[test]
fn a_missing_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = SocketFile::listen(&missing, NAME).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    remove_stale(&missing);
}
