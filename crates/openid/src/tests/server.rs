//! An issuer's server on the loopback interface, with scripted responses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use runtime::Tasks;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The scripted behaviour.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) status: u16,
    pub(crate) keys: Vec<u8>,
    /// The issuer in its configuration, if it differs from the URL.
    pub(crate) name: Option<String>,
    /// Members of the configuration that replace others.
    pub(crate) configuration: Value,
    /// The status and the document of the token endpoint.
    pub(crate) token: (u16, Value),
    pub(crate) wait: Duration,
}

/// A running server.
pub(crate) struct Server {
    pub(crate) url: String,
    script: Arc<Mutex<Script>>,
    asked: Arc<Mutex<Vec<String>>>,
    posted: Arc<Mutex<Vec<Posted>>>,
}

/// A request with a form.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) head: String,
    pub(crate) form: Vec<(String, String)>,
}

impl Server {
    pub(crate) async fn start(tasks: &Tasks, keys: &[Value]) -> Server {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/realm", socket.local_addr().unwrap());
        let wait = Duration::ZERO;
        let script = Script {
            status: 200,
            keys: document(keys),
            name: None,
            configuration: json!({}),
            token: (200, json!({})),
            wait,
        };
        let (script, asked) = (Arc::new(Mutex::new(script)), Arc::new(Mutex::new(Vec::new())));
        let posted = Arc::new(Mutex::new(Vec::new()));
        let server = Server {
            url: url.clone(),
            script: script.clone(),
            asked: asked.clone(),
            posted: posted.clone(),
        };
        let of = tasks.clone();
        tasks.spawn("a test's issuer", async move {
            while let Ok((stream, _)) = socket.accept().await {
                let (url, script, asked) = (url.clone(), script.clone(), asked.clone());
                let posted = posted.clone();
                of.spawn("a connection", async move {
                    answer(stream, &url, &script, &asked, &posted).await;
                });
            }
        });
        server
    }

    /// Changes the behaviour for later requests.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap());
    }

    /// Returns the forms so far, and forgets them.
    pub(crate) fn posted(&self) -> Vec<Posted> {
        std::mem::take(&mut self.posted.lock().unwrap())
    }

    /// Returns the number of requests for the configuration and for the keys.
    pub(crate) fn asked(&self) -> (usize, usize) {
        let asked = self.asked.lock().unwrap();
        let count = |end: &str| asked.iter().filter(|path| path.ends_with(end)).count();
        (count("/.well-known/openid-configuration"), count("/keys"))
    }
}

pub(crate) fn document(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}

async fn answer(
    mut stream: TcpStream,
    url: &str,
    script: &Mutex<Script>,
    asked: &Mutex<Vec<String>>,
    posted: &Mutex<Vec<Posted>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let script = script.lock().unwrap().clone();
    if head.starts_with("POST ") {
        let mut form = vec![0; length(&head)];
        stream.read_exact(&mut form).await.unwrap();
        let form = url::form_urlencoded::parse(&form).into_owned().collect();
        posted.lock().unwrap().push(Posted { head, form });
    }
    asked.lock().unwrap().push(path.clone());
    tokio::time::sleep(script.wait).await;
    let (status, body) = if path.ends_with("/keys") {
        (script.status, script.keys)
    } else if path.ends_with("/token") {
        (script.token.0, script.token.1.to_string().into_bytes())
    } else {
        let name = script.name.unwrap_or_else(|| url.to_owned());
        let mut members = json!({
            "issuer": name,
            "jwks_uri": format!("{url}/keys"),
            "authorization_endpoint": format!("{url}/authorize?tenant=a"),
            "token_endpoint": format!("{url}/token"),
        });
        for (name, value) in script.configuration.as_object().unwrap() {
            members[name] = value.clone();
        }
        (script.status, members.to_string().into_bytes())
    };
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // A client may close the connection before it has read the whole response.
    let _ended = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body).await?;
        stream.shutdown().await
    }
    .await;
}

fn length(head: &str) -> usize {
    let lower = head.to_lowercase();
    let (_, rest) = lower.split_once("content-length: ").unwrap();
    rest.split_once('\r').unwrap().0.parse().unwrap()
}
