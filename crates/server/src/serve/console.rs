//! The listener of the console and the administration API.
//!
//! It uses the certificate and the limits of the S3 endpoint, with an edge of its own, so that a
//! flood of S3 requests does not keep operators out. For example, with `--tls-cert` and `--tls-key`
//! the console is at `https://127.0.0.1:9702/`.

use std::sync::Arc;
use std::time::Duration;

use adminapi::{AdminApi, Parts, ProcessFacts};
use edge::{ConnectionPermits, Edge, EdgeMetrics, HostLimits, Hosts, Lingering, Listener};
use edge::{ResponseTimeouts, Tls};
use gateway::Gateway;
use identity::Access;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use webconsole::ConsoleSettings;

use super::audited::Audited;
use super::console_service::ConsoleService;
use super::settings::{GatewaySettings, host_limits};
use crate::backend::Backend;
use crate::config::in_force;
use crate::{build, engines, operator};

/// The limit of connections. A browser uses six.
const CONNECTIONS_MAX: usize = 256;

/// The limit of requests in flight.
const REQUESTS_MAX: usize = 64;

/// The limits of one host.
const HOST_CONNECTIONS_MAX: usize = 64;
const HOST_REQUESTS_MAX: usize = 32;

/// The time that requests in flight have to finish at the stop.
const DRAIN: Duration = Duration::from_secs(5);

/// Returns the administration API over the parts of a gateway.
pub(super) fn api(
    settings: &GatewaySettings,
    backend: &Backend,
    gateway: &Arc<Gateway>,
    (access, audited): (&Arc<Access>, &Audited),
) -> Arc<AdminApi> {
    let store = Arc::clone(&backend.meta);
    let GatewaySettings { volume, open, mount, serve } = settings;
    let in_force = in_force(volume, open, mount, serve);
    let facts = ProcessFacts {
        version: build::VERSION.to_owned(),
        commit: build::COMMIT.unwrap_or_default().to_owned(),
        region: serve.region.clone(),
        metadata_place: volume.meta.to_string(),
        blocks_place: volume.blocks.to_string(),
        durability: Box::new(move || engines::durability(&*store).to_string()),
        settings: serde_json::to_value(in_force).unwrap_or_default(),
        dumps: volume.data_dir.join("dumps"),
    };
    let admin = operator::within(Arc::clone(&backend.volume), Arc::clone(&backend.meta));
    Arc::new(AdminApi::new(Parts {
        volume: backend.volume.clone(),
        meta: Arc::clone(&backend.meta),
        gateway: Arc::clone(gateway),
        access: Arc::clone(access),
        admin,
        blocks: Arc::clone(&backend.blocks.store),
        activity: Arc::clone(&audited.activity),
        log: Arc::clone(&audited.log),
        facts,
    }))
}

/// Serves the console to clients of `socket` until `stop` is cancelled.
pub(super) async fn serve(
    socket: TcpListener,
    (api, settings, audited): (Arc<AdminApi>, ConsoleSettings, Arc<Audited>),
    tls: Option<Tls>,
    limits: HostLimits,
    random: u64,
    stop: CancellationToken,
) {
    let is_local = socket.local_addr().is_ok_and(|address| address.ip().is_loopback());
    if tls.is_none() && !is_local && limits.proxies.is_empty() {
        tracing::warn!(
            "the console has no TLS and listens beyond this machine: secrets cross the network in \
             the clear; set --tls-cert and --tls-key, or --console-listen 127.0.0.1:9702"
        );
    }
    // The metrics of the S3 endpoint do not contain the requests of operators.
    let metrics = Arc::new(EdgeMetrics::new());
    let service = ConsoleService::new(api, settings, audited);
    let edge = Arc::new(Edge::new(service, Arc::clone(&metrics), REQUESTS_MAX, random));
    let timeouts = Duration::from_mins(1);
    let listener = Listener {
        tls,
        edge,
        permits: ConnectionPermits::new(CONNECTIONS_MAX),
        hosts: Hosts::new(limits),
        metrics,
        timeouts: ResponseTimeouts { download: timeouts, in_memory: timeouts },
        lingering: Lingering::default(),
    };
    listener.serve(socket, stop, DRAIN).await;
}

/// Returns the settings of the console. `s3` is the socket of the S3 endpoint.
pub(super) fn settings(serve: &crate::config::ServeSettings, s3: &TcpListener) -> ConsoleSettings {
    ConsoleSettings {
        s3_url: None,
        s3_port: s3.local_addr().map_or(0, |address| address.port()),
        region: serve.region.clone(),
    }
}

/// Returns the limits of one host at the console.
pub(super) fn limits(serve: &crate::config::ServeSettings) -> HostLimits {
    HostLimits {
        connections_max: HOST_CONNECTIONS_MAX,
        requests_max: HOST_REQUESTS_MAX,
        ..host_limits(serve)
    }
}
