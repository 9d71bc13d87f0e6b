//! Sessions without the master key, and socket files of other users.

use record::SocketSecret;
use tokio::net::TcpListener;

use super::fixture::*;
use crate::handshake::HandshakeError;
use crate::{Peer, Peering, PeeringError, PeeringOptions};

fn keyless(options: PeeringOptions) -> PeeringOptions {
    PeeringOptions { network_key: None, ..options }
}

#[tokio::test]
async fn sessions_without_the_master_key_connect_through_a_socket_file() {
    let folder = tempfile::tempdir().unwrap();
    for (dialer, listener) in [
        (keyless(options()), keyless(local(folder.path()))),
        (keyless(options()), local(folder.path())),
        (options(), keyless(local(folder.path()))),
    ] {
        let mut dialer = Session::start(2, dialer).await;
        let mut listener = Session::start(1, listener).await;
        let (at_dialer, at_listener) = connected(&mut dialer, &mut listener).await;
        assert!(at_dialer.is_local() && at_listener.is_local());
        assert!(at_dialer.send(ask(1)) && at_listener.send(ask(2)));
        assert_eq!(listener.received().await, ask(1));
        assert_eq!(dialer.received().await, ask(2));
    }
}

#[tokio::test]
async fn a_session_without_the_master_key_connects_to_no_network_address() {
    let dialer = Session::start(2, keyless(options())).await;
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    dialer.links.set_peers(vec![peer_at(1, vec![address.clone()])]);
    let text = dialer.failure(1).await;
    assert_eq!(
        text,
        format!("{address}: this process does not have the master key of this volume")
    );
    assert!(futures::FutureExt::now_or_never(listener.accept()).is_none(), "no connection");
}

#[tokio::test]
async fn a_listener_on_the_network_needs_the_master_key() {
    let error = Peering::bind(keyless(remote())).await.unwrap_err();
    assert!(matches!(error, PeeringError::NoKey), "{error}");
}

/// For example, another user has made a file with the name of a socket that was removed, in a
/// folder that all users can write.
#[tokio::test]
async fn a_socket_file_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    let mut dialer = Session::start(2, options()).await;
    let (own, path) = (rustix::process::geteuid().as_raw(), socket_path(&listener.reach[0]));
    let reach = format!("unix:{}:{}", own + 1, path.display());
    dialer.links.set_peers(vec![Peer { reach: vec![reach.clone()], ..listener.peer() }]);
    let text = dialer.failure(1).await;
    let why =
        format!("a process of the user {own} listens there, and not one of the user {}", own + 1);
    assert_eq!(text, format!("{reach}: {why}"));
    listener.quiet();
    dialer.quiet();
}

/// For example, a process of the same user that cannot read the records of the volume.
#[tokio::test]
async fn a_process_that_does_not_know_the_secret_of_a_socket_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut listener = Session::start(1, local(folder.path())).await;
    listener.links.set_peers(vec![Peer::without_addresses(nonce(2))]);
    let mut dialer = Session::start(2, options()).await;
    for secret in [SocketSecret::NONE, SocketSecret([9; SocketSecret::BYTES])] {
        dialer.links.set_peers(vec![Peer { socket_secret: secret, ..listener.peer() }]);
        let text = dialer.failure(1).await;
        assert_eq!(text, format!("{}: {}", listener.reach[0], HandshakeError::Proof));
    }
    listener.quiet();
    dialer.quiet();
    dialer.links.set_peers(vec![listener.peer()]);
    dialer.opened().await;
    listener.opened().await;
}

#[tokio::test]
async fn a_session_of_another_volume_is_refused_at_a_socket_file() {
    let folder = tempfile::tempdir().unwrap();
    let listener = Session::start(1, local(folder.path())).await;
    let dialer = Session::start(2, PeeringOptions { volume: [2; 16], ..options() }).await;
    dialer.links.set_peers(vec![listener.peer()]);
    let text = dialer.failure(1).await;
    assert_eq!(text, format!("{}: its session belongs to another volume", listener.reach[0]));
}
