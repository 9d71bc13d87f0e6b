//! Measures the time from a notice to its acknowledgement between two sessions of this process,
//! over a Unix socket and over TCP. Each session has a runtime with two threads of its own, as in
//! two processes.
//!
//! `cargo run --release --example round_trip -p peering`

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use peering::{Link, LinkEvents, Links, Message, Peer, Peering, PeeringKey, PeeringOptions};
use record::Nonce;
use runtime::Tasks;
use store::{Key, Space};
use tokio::runtime::{Builder, Runtime};

const ROUNDS: u64 = 20_000;
const KEYS: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers notices, and passes links and acknowledgements on.
#[derive(Debug)]
struct Session {
    links: mpsc::Sender<Link>,
    acks: mpsc::Sender<u64>,
}

impl LinkEvents for Session {
    fn opened(&self, link: &Link) {
        let _ = self.links.send(link.clone());
    }

    fn received(&self, link: &Link, message: Message) {
        match message {
            Message::Notice { batch, .. } => _ = link.send(Message::Ack { batch }),
            Message::Ack { batch } => _ = self.acks.send(batch),
            Message::Ask { .. } | Message::Grant { .. } | Message::Done { .. } | Message::Bye => {}
        }
    }

    fn closed(&self, _: &Link) {}
}

struct Side {
    runtime: Runtime,
    links: Links,
    peer: Peer,
    opened: mpsc::Receiver<Link>,
    acks: mpsc::Receiver<u64>,
}

fn start(
    own: u8,
    socket_dir: Option<PathBuf>,
    listen: Option<SocketAddr>,
) -> Result<Side, Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let network_key = Some(PeeringKey::new([9; 32]));
    let options =
        PeeringOptions { volume: [1; 16], network_key, socket_dir, listen, address: None };
    let (links, opened) = mpsc::channel();
    let (sender, acks) = mpsc::channel();
    let session = Arc::new(Session { links, acks: sender });
    let nonce = Nonce([own; 10]);
    let (links, peer) = runtime.block_on(async {
        let peering = Peering::bind(options).await?;
        let (reach, socket_secret) = (peering.reach().to_vec(), peering.socket_secret());
        let peer = Peer { nonce, reach, socket_secret };
        let links = peering.start(nonce, &Tasks::new(), session);
        Ok::<_, peering::PeeringError>((links, peer))
    })?;
    Ok(Side { runtime, links, peer, opened, acks })
}

fn measure(
    name: &str,
    dir: Option<PathBuf>,
    tcp: Option<SocketAddr>,
) -> Result<(), Box<dyn Error>> {
    let reader = start(1, dir, tcp)?;
    let writer = start(2, None, None)?;
    writer.links.set_peers(vec![reader.peer.clone()]);
    let link = writer.opened.recv_timeout(PATIENCE)?;
    let key = |number: u64| Key::new(Space(b'd'), 7, format!("photos-{number}.jpg").as_bytes());
    let keys: Arc<[Key]> = (0..KEYS).map(key).collect();
    // Sent from a task, as a commit does; the acknowledgement wakes this thread.
    let mut times = Vec::new();
    for batch in 0..ROUNDS {
        let notice = Message::Notice { batch, keys: Arc::clone(&keys) };
        let began = Instant::now();
        link.send(notice);
        writer.acks.recv_timeout(PATIENCE)?;
        times.push(began.elapsed());
    }
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!("{name}: p50 {:?}, p90 {:?}, p99 {:?}", at(50), at(90), at(99));
    writer.links.close();
    reader.links.close();
    drop((writer.runtime, reader.runtime));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    measure("Unix socket", Some(folder.path().to_owned()), None)?;
    measure("TCP", None, Some(SocketAddr::from(([127, 0, 0, 1], 0))))
}
