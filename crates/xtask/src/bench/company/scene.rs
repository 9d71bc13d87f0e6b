//! The processes of a measurement of requests: two gateways under load, the peers of one of them,
//! and the writer at a peer.
//!
//! For example, the volume `company` has the measured gateway, an idle gateway and an idle mount.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use load::{Gauge, Runner};

use super::super::counters::{self, Counters};
use super::super::loads::{PREFIX, SEED, runner, stop_with};
use super::super::measurement::BUCKET;
use super::super::meter;
use super::figure::Spent;
use super::ground::{Ground, Peer, VOLUMES, Volume};
use super::writer::Writer;
use crate::servers::Server;

/// The pause between the start of the last peer and the first round. Sessions that began or ended
/// less than a second ago change the state of the others.
const SETTLE: Duration = Duration::from_secs(2);

/// The load before each measured round, which is not measured. A gateway beside peers needs some
/// requests before it knows that it serves reads, and both kinds of rounds have the same lead-in.
pub(super) const LEAD_IN: Duration = Duration::from_millis(300);

/// The measured gateway of one volume, the load on it, and its peers. The order of the fields is
/// the order in which they end.
pub(super) struct Side<'a> {
    pub(super) runner: Runner,
    pub(super) peers: Vec<Peer>,
    gateway: Server,
    /// The address of the gateway's metrics.
    admin: String,
    pub(super) volume: Volume<'a>,
}

/// The measurement over one engine.
pub(super) struct Scene<'a> {
    pub(super) ground: &'a Ground<'a>,
    /// In the order of [`VOLUMES`].
    pub(super) sides: [Side<'a>; 2],
    pub(super) writer: Writer,
    /// The rates of the writer in each round beside it, in PUTs per second.
    pub(super) written: Vec<f64>,
    pub(super) gauge: Arc<Gauge>,
}

impl<'a> Scene<'a> {
    /// Starts all processes, and creates the buckets.
    pub(super) fn begin(ground: &'a Ground<'a>) -> Result<Self> {
        let gauge = Arc::new(Gauge::default());
        // The load does not know the stop signal, so a thread passes it on.
        stop_with(ground.stop, &gauge)?;
        let [alone, company] = VOLUMES;
        let alone = Side::begin(ground, alone)?;
        let mut company = Side::begin(ground, company)?;
        let peer = company.volume.gateway()?;
        let writer = Writer::at(&peer)?;
        let mount = company.volume.mount()?;
        company.peers = vec![Peer::Gateway(peer), Peer::Mount(mount)];
        ground.stop.sleep(SETTLE)?;
        let sides = [alone, company];
        Ok(Self { ground, sides, writer, written: Vec::new(), gauge })
    }
}

impl<'a> Side<'a> {
    /// Starts the measured gateway of a volume, and creates the bucket.
    fn begin(ground: &'a Ground<'a>, name: &'static str) -> Result<Self> {
        let mut volume = Volume::make(ground, name)?;
        let gateway = volume.gateway()?;
        let admin = counters::admin(gateway.child.log())?;
        let runner = runner(&gateway)?;
        Ok(Self { runner, peers: Vec::new(), gateway, admin, volume })
    }

    /// Returns a load on another gateway of the volume, with the same objects.
    pub(super) fn runner_at(peer: &Server) -> Result<Runner> {
        Ok(Runner::new(&peer.target(BUCKET), PREFIX, SEED, 1)?)
    }

    /// Returns the costs up to now.
    pub(super) fn spent(&self) -> Result<Spent> {
        let peers: Vec<u32> = self.peers.iter().map(Peer::pid).collect();
        let cpu = [
            meter::cpu_time(self.gateway.child.pid())?,
            meter::cpu_time_of_tree(&peers),
            self.volume.metadata.cpu(),
        ];
        Ok(Spent { counters: Counters::read(&self.admin)?, cpu })
    }
}
