//! An S3 endpoint in a thread of this process: a map of objects, and no disk, hash or signature.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, RANGE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;

/// A request with its response.
pub(crate) type Twist = fn(&Method, &str, &mut Response<Full<Bytes>>);

#[derive(Default)]
struct Store {
    objects: Mutex<BTreeMap<String, Bytes>>,
}

/// Starts an endpoint that `twist` may make give wrong answers; it ends with the process.
pub(crate) fn start(twist: Twist) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket.set_nonblocking(true).expect("a socket");
    let address = socket.local_addr().expect("an address");
    std::thread::Builder::new()
        .name("endpoint".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(serve(socket, twist));
        })
        .expect("a thread");
    address
}

async fn serve(socket: TcpListener, twist: Twist) {
    let socket = tokio::net::TcpListener::from_std(socket).expect("a socket");
    let store = Arc::new(Store::default());
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = socket.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let store = Arc::clone(&store);
        connections.spawn(async move {
            let answer = |request: Request<Incoming>| {
                let store = Arc::clone(&store);
                async move {
                    let method = request.method().clone();
                    let place = request.uri().to_string();
                    let mut answer = store.answer(request).await;
                    twist(&method, &place, &mut answer);
                    Ok::<_, Infallible>(answer)
                }
            };
            // A client may end its connection in any way.
            let _gone = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        });
    }
}

impl Store {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body =
            body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let key = head.uri.path().trim_start_matches("/bucket").trim_start_matches('/').to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let xml = |text: String| plain(StatusCode::OK, text.into());
        match head.method {
            _ if !head.headers.contains_key("authorization") => {
                plain(StatusCode::FORBIDDEN, Bytes::new())
            }
            Method::HEAD if key.is_empty() => plain(StatusCode::OK, Bytes::new()),
            Method::GET if key.is_empty() => xml(self.page(&query)),
            Method::POST if query == "delete=" => {
                let text = String::from_utf8(body.to_vec()).expect("XML");
                let mut objects = self.objects.lock().expect("no panic");
                for part in text.split("<Key>").skip(1) {
                    objects.remove(part.split("</Key>").next().expect("a key"));
                }
                xml("<DeleteResult></DeleteResult>".to_owned())
            }
            Method::POST if query == "uploads=" => xml("<UploadId>u&amp;1</UploadId>".to_owned()),
            Method::POST => xml("<ETag>\"e\"</ETag>".to_owned()),
            Method::PUT => {
                if !key.contains("put-") && !query.contains("partNumber") {
                    self.objects.lock().expect("no panic").insert(key, body);
                }
                plain(StatusCode::OK, Bytes::new())
            }
            Method::DELETE => {
                self.objects.lock().expect("no panic").remove(&key);
                plain(StatusCode::NO_CONTENT, Bytes::new())
            }
            method => match self.objects.lock().expect("no panic").get(&key) {
                Some(object) => read(&method, &head.headers, object),
                None => plain(StatusCode::NOT_FOUND, Bytes::new()),
            },
        }
    }

    /// Two keys a page.
    fn page(&self, query: &str) -> String {
        let of = |name: &str| {
            let found = query.split('&').find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
            found.unwrap_or_default().replace("%2F", "/")
        };
        let (prefix, from) = (of("prefix"), of("continuation-token"));
        let objects = self.objects.lock().expect("no panic");
        let all = objects.keys().filter(|key| key.starts_with(&prefix) && **key > from);
        let all: Vec<_> = all.collect();
        let keys: String = all.iter().take(2).map(|key| element("Key", key)).collect();
        let more = element("IsTruncated", if all.len() > 2 { "true" } else { "false" });
        let next = all.get(1).filter(|_| all.len() > 2);
        let next = next.map(|last| element("NextContinuationToken", last)).unwrap_or_default();
        keys + &more + &next
    }
}

fn element(name: &str, text: &str) -> String {
    format!("<{name}>{text}</{name}>")
}

fn read(method: &Method, headers: &HeaderMap, object: &Bytes) -> Response<Full<Bytes>> {
    if *method == Method::HEAD {
        let mut answer = plain(StatusCode::OK, Bytes::new());
        answer.headers_mut().insert(CONTENT_LENGTH, object.len().into());
        return answer;
    }
    let Some(range) = headers.get(RANGE) else { return plain(StatusCode::OK, object.clone()) };
    let range = range.to_str().expect("text").trim_start_matches("bytes=").to_owned();
    let (first, last) = range.split_once('-').expect("a range");
    let (first, last): (usize, usize) =
        (first.parse().expect("a number"), last.parse().expect("a number"));
    plain(StatusCode::PARTIAL_CONTENT, object.slice(first..=last))
}

fn plain(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(ETAG, http::HeaderValue::from_static("\"e\""));
    answer
}
