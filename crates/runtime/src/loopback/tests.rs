use socket2::SockRef;
use tokio::net::TcpListener;

use super::*;

fn congestion_control(stream: &TcpStream) -> String {
    let name = SockRef::from(stream).tcp_congestion().expect("the system reports it");
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

#[tokio::test]
async fn both_ends_of_a_connection_within_the_machine_are_not_paced() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        // A machine may do without IPv6.
        let Ok(listener) = TcpListener::bind(address).await else { continue };
        let there = listener.local_addr().expect("it is bound");
        let near = TcpStream::connect(there).await.expect("it listens");
        let (far, _) = listener.accept().await.expect("it was connected to");
        for end in [near, far] {
            SockRef::from(&end).set_tcp_congestion(b"cubic").expect("the system has it");
            disable_pacing(&end);
            assert_eq!(congestion_control(&end), "reno");
        }
    }
}
