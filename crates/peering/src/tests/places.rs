//! Addresses: long paths, NAT, files of ended sessions, and places that cannot be used.

use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::atomic::Ordering;

use super::fixture::*;
use crate::peering::SocketFileError;
use crate::{Peering, PeeringError, PeeringOptions};

#[tokio::test]
async fn sessions_in_a_folder_with_a_long_path_connect() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("a".repeat(120)).join("b".repeat(120));
    fs::create_dir_all(&long).unwrap();
    let mut dialer = Session::start(2, options()).await;
    let mut listener = Session::start(1, local(&long)).await;
    assert!(listener.reach[0].len() > 240, "longer than the address of a socket");
    let (at_dialer, _) = connected(&mut dialer, &mut listener).await;
    assert!(at_dialer.is_local() && at_dialer.send(ask(1)));
    assert_eq!(listener.received().await, ask(1));
}

#[tokio::test]
async fn a_listener_behind_nat_is_reached_at_its_announced_address() {
    let tasks = runtime::Tasks::new();
    let port = |text: &str| text.rsplit_once(':').unwrap().1.to_owned();
    // The address of the proxy is known before the listener's is, as with a forwarded port.
    let target = ports::reserve();
    let proxy = Proxy::start(&tasks, target.to_string(), None).await;
    let announced = format!("localhost:{}", port(&proxy.reach()));
    let mut listener = Session::start(
        1,
        PeeringOptions { listen: Some(target), address: Some(announced.clone()), ..options() },
    )
    .await;
    assert_eq!(listener.reach, [format!("tcp:{announced}")]);
    let mut dialer = Session::start(2, options()).await;
    connected(&mut dialer, &mut listener).await;
    assert_eq!(proxy.accepted.load(Ordering::SeqCst), 1, "the connection came this way");
}

#[tokio::test]
async fn the_socket_file_is_preferred_and_tcp_is_the_fallback() {
    let folder = tempfile::tempdir().unwrap();
    let both = PeeringOptions { listen: Some(loopback()), ..local(folder.path()) };
    let mut listener = Session::start(1, both).await;
    let mut dialer = Session::start(2, options()).await;
    let mut peer = listener.peer();
    peer.reach.reverse();
    assert!(peer.reach[0].starts_with("tcp:"));
    dialer.links.set_peers(vec![peer.clone()]);
    assert!(dialer.opened().await.is_local());
    listener.opened().await.close();
    dialer.closed().await;
    listener.closed().await;

    // The file is gone, as for a session in another container.
    fs::remove_file(socket_path(&listener.reach[0])).unwrap();
    assert!(!dialer.opened().await.is_local());
    assert!(!listener.opened().await.is_local());
}

#[tokio::test]
async fn a_dead_address_is_skipped() {
    let mut listener = Session::start(1, remote()).await;
    let mut dialer = Session::start(2, options()).await;
    let reach = vec!["tcp:127.0.0.1:1".to_owned(), listener.reach[0].clone()];
    dialer.links.set_peers(vec![peer_at(1, reach)]);
    dialer.opened().await;
    listener.opened().await;
}

#[tokio::test]
async fn a_new_session_removes_sockets_of_ended_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer-0123456789abcdef.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the file remains after its listener");
    let live = Session::start(1, local(folder.path())).await;
    assert!(!path.exists());
    let other = Session::start(2, local(folder.path())).await;
    for session in [&live, &other] {
        assert!(fs::exists(socket_path(&session.reach[0])).unwrap());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    drop((live, other));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_session_that_never_starts_removes_its_socket() {
    let folder = tempfile::tempdir().unwrap();
    let peering = Peering::bind(local(folder.path())).await.unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    drop(peering);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn places_that_cannot_be_used_are_reported_with_their_cause() {
    let error = async |options| Peering::bind(options).await.unwrap_err();
    let taken = tokio::net::TcpListener::bind(loopback()).await.unwrap();
    let listen = taken.local_addr().unwrap();
    let text = error(PeeringOptions { listen: Some(listen), ..options() }).await.to_string();
    assert_eq!(text, format!("{listen} cannot be listened on: address in use"));

    let announced =
        |listen, text: &str| PeeringOptions { listen, address: Some(text.to_owned()), ..options() };
    let found = error(announced(Some(loopback()), "no port")).await;
    assert!(matches!(found, PeeringError::Address(_)), "{found}");
    let found = error(announced(None, "gateway-1:9703")).await;
    assert!(matches!(found, PeeringError::NoListener), "{found}");
}

/// For example, the disk of the data folder is full.
#[tokio::test]
async fn a_session_that_cannot_make_its_socket_connects_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let strange = folder.path().join(std::ffi::OsString::from_vec(b"not-utf8-\xff".to_vec()));
    fs::create_dir(&strange).unwrap();

    let mut peering = Peering::bind(options()).await.unwrap();
    let text = peering.bind_unix(missing.clone()).unwrap_err().to_string();
    assert_eq!(text, format!("no socket can be made in {}: entity not found", missing.display()));
    let found = peering.bind_unix(strange.clone()).unwrap_err();
    assert!(matches!(found, SocketFileError::Path(_)), "{found}");

    let mut listener = Session::start(1, local(folder.path())).await;
    for place in [&missing, &strange] {
        let mut dialer = Session::start(2, local(place)).await;
        assert!(dialer.reach.is_empty());
        let (link, _) = connected(&mut dialer, &mut listener).await;
        dialer.links.close();
        assert!(link.is_local());
        listener.closed().await;
    }
    assert_eq!(fs::read_dir(&strange).unwrap().count(), 0, "no socket remains");
}
