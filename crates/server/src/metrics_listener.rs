//! The administrative listener: metrics and the detailed status, for operators.
//!
//! It has no authentication, so it listens on the loopback by default. The S3 port serves the
//! metrics to senders with a token alone (`madmin`), and no status. A page in a browser on this
//! machine could still reach it if the page's host name resolves to the loopback ("DNS rebinding").
//! Such a request has that name in `Host`, so unknown names are refused. For example, `Host:
//! evil.example` gets 421.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use edge::{ResponseKind, ResponseTimeouts, Stall, bind};
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::ListenAt;
use crate::metrics::Metrics;
use problem::Problem;

/// The limit of connections. A scraper, a probe and a person need three. At the limit, a new
/// connection ends the oldest one, so that idle clients do not switch the health checks off.
const CONNECTIONS_MAX: usize = 128;

/// The limit of time to receive a request's head.
const HEAD_WAIT: Duration = Duration::from_secs(5);

/// The time after which a connection ends if its client reads nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeouts of responses, all the same.
const RESPONSE_TIMEOUTS: ResponseTimeouts =
    ResponseTimeouts { download: READ_TIMEOUT, in_memory: READ_TIMEOUT };

/// The content type of `/metrics`.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A function that makes the detailed status, as JSON.
pub(crate) type StatusOf = Arc<dyn Fn() -> BoxFuture<'static, serde_json::Value> + Send + Sync>;

/// Returns the socket of a listener for operators, or `None` if it is off. `default` is the address
/// to try first if the settings name none.
pub(crate) async fn socket(
    listen: &ListenAt,
    default: &str,
) -> Result<Option<TcpListener>, Problem> {
    match listen {
        ListenAt::Off => Ok(None),
        ListenAt::At(address) => bind(address).await.map(Some),
        ListenAt::Default => match TcpListener::bind(default).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                bind("127.0.0.1:0").await.map(Some)
            }
            Ok(socket) => Ok(Some(socket)),
            // Once more with `bind`, whose error contains the remedy.
            Err(_) => bind(default).await.map(Some),
        },
    }
}

/// A function that returns true if the process can serve now.
pub(crate) type ReadyOf = Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// The sources of the pages of the listener.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) status: StatusOf,
    pub(crate) ready: ReadyOf,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pages")
    }
}

/// The names in `Host` that the listener accepts in addition to addresses and `localhost`, in lower
/// case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts(Arc<[String]>);

impl Hosts {
    /// Returns the name in the address to listen on, if any, and the names of `--admin-host`.
    pub(crate) fn new(listen: &ListenAt, others: &[String]) -> Hosts {
        let own = match listen {
            ListenAt::At(address) => Some(address.as_str()),
            ListenAt::Default | ListenAt::Off => None,
        };
        let names = own.into_iter().chain(others.iter().map(String::as_str));
        let names = names.map(|name| bare(name).to_ascii_lowercase());
        Hosts(names.filter(|name| !name.is_empty()).collect())
    }

    /// Returns true if a `Host` is accepted. An address always is: the client resolved no name, so
    /// the request is not from a page with a rebound name.
    fn admit(&self, host: &str) -> bool {
        let name = bare(host).to_ascii_lowercase();
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        address.map_or_else(
            || name.parse::<Ipv4Addr>().is_ok(),
            |address| address.parse::<Ipv6Addr>().is_ok(),
        ) || name == "localhost"
            || name.ends_with(".localhost")
            || self.0.contains(&name)
    }

    /// Returns true if the `Host` and the URI of a request are accepted.
    fn admit_request<B>(&self, request: &Request<B>) -> bool {
        let mut headers = request.headers().get_all(HOST).iter();
        let (Some(host), None) = (headers.next(), headers.next()) else { return false };
        let authority = request.uri().authority().map(http::uri::Authority::as_str);
        host.to_str().is_ok_and(|host| self.admit(host))
            && authority.is_none_or(|authority| self.admit(authority))
    }
}

/// Returns `host:port` without the port and without a dot at the end of the name. Brackets stay.
fn bare(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// Serves metrics and the detailed status to clients of `socket` until `stop` is cancelled.
pub(crate) async fn serve(
    socket: TcpListener,
    hosts: Hosts,
    pages: Pages,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    // The connections in the order of their start. Each ends when its token is cancelled.
    let mut open: VecDeque<CancellationToken> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((stream, _)) = accepted else { continue };
        // A connection that has ended has cancelled its token itself.
        open.retain(|one| !one.is_cancelled());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.cancel();
        }
        let (pages, hosts, stop) = (pages.clone(), hosts.clone(), stop.child_token());
        open.push_back(stop.clone());
        tasks.spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WAIT)
                .serve_connection(
                    TokioIo::new(Stall::new(stream, RESPONSE_TIMEOUTS, ResponseKind::default())),
                    service_fn(|request| {
                        let (pages, hosts) = (pages.clone(), hosts.clone());
                        async move {
                            // Before any other step, so that a page under a rebound name learns
                            // nothing.
                            if !hosts.admit_request(&request) {
                                return Ok::<_, Infallible>(misdirected());
                            }
                            Ok(answer(&request, &pages).await)
                        }
                    }),
                );
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "an administrative connection ended with an error");
                    }
                }
                // At the stop, and for a newer connection at the limit, connections are dropped: a
                // scraper tries again.
                () = stop.cancelled() => {}
            }
            stop.cancel();
        });
    }
}

/// The text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exposition {
    OpenMetrics,
    /// The format 0.0.4 of Prometheus, which other scrapers and `promtool check metrics` read.
    Prometheus,
}

impl Exposition {
    /// Returns the format that a client prefers. A client that names neither format gets
    /// `OpenMetrics`.
    fn accepted(headers: &HeaderMap) -> Exposition {
        let quality = |kind: &str| {
            let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
            let items = lines.flat_map(|line| line.split(','));
            items.filter_map(|item| quality_of(item, kind)).fold(0.0_f32, f32::max)
        };
        if quality("text/plain") > quality("application/openmetrics-text") {
            Exposition::Prometheus
        } else {
            Exposition::OpenMetrics
        }
    }

    fn text(self, metrics: &Metrics) -> Result<String, fmt::Error> {
        match self {
            Exposition::OpenMetrics => metrics.text(),
            Exposition::Prometheus => metrics.prometheus_text(),
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Exposition::OpenMetrics => OPENMETRICS,
            Exposition::Prometheus => PROMETHEUS,
        }
    }
}

/// Returns the quality of an item of `Accept`, such as `text/plain;q=0.5`, if it is for `kind`.
fn quality_of(item: &str, kind: &str) -> Option<f32> {
    let mut parts = item.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(kind) {
        return None;
    }
    let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
    Some(quality.unwrap_or(1.0))
}

/// Returns the response to a request with an unknown host name.
fn misdirected() -> Response<Full<Bytes>> {
    let message = "this listener does not accept this host name; add it with --admin-host\n";
    text(StatusCode::MISDIRECTED_REQUEST, "text/plain", message.to_owned())
}

/// Returns the response to a request.
async fn answer(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    // hyper sends the headers alone in the response to a HEAD.
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "use GET\n".to_owned());
    }
    let exposition = Exposition::accepted(request.headers());
    match request.uri().path() {
        "/metrics" => match metrics_text(exposition, &pages.metrics).await {
            Ok(lines) => text(StatusCode::OK, exposition.content_type(), lines),
            Err(error) => {
                tracing::error!(%error, "cannot encode the metrics");
                let message = "cannot encode the metrics\n".to_owned();
                text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", message)
            }
        },
        "/status" => {
            let status = (pages.status)().await;
            text(StatusCode::OK, "application/json", format!("{status:#}\n"))
        }
        "/-/ready" => {
            let is_ready = (pages.ready)().await;
            let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            text(status, "text/plain", String::new())
        }
        "/-/healthy" => text(StatusCode::OK, "text/plain", String::new()),
        _ => text(StatusCode::NOT_FOUND, "text/plain", "try /metrics or /status\n".to_owned()),
    }
}

/// Returns all metrics, after those of a store were read again.
async fn metrics_text(exposition: Exposition, metrics: &Metrics) -> Result<String, fmt::Error> {
    metrics.refresh().await;
    exposition.text(metrics)
}

/// Returns a response with this body.
fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests;
