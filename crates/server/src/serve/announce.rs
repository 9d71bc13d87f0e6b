//! The announcement of a start: the addresses of the gateway, and commands that connect clients.

use std::io::IsTerminal;

use tokio::net::TcpListener;

use super::sockets::Sockets;
use crate::config::{LogFormat, ServeSettings, VolumeSettings};
use crate::credentials::{Root, Source};
use crate::supervisor;

/// Logs the addresses of the gateway, and the file of the root credentials if this start created
/// them. On a terminal also prints commands with the secret, to paste into clients. Other standard
/// outputs often end in a log collector, so no secret is printed there, and none with JSON logs.
/// The service manager learns that the gateway is ready.
pub(super) fn say(
    (volume, serve): (&VolumeSettings, &ServeSettings),
    root: &Root,
    sockets: &Sockets,
) {
    let address = |socket: &TcpListener| {
        socket.local_addr().map_or_else(|_| "unknown".to_owned(), |address| address.to_string())
    };
    let scheme = if serve.tls.is_some() { "https" } else { "http" };
    let endpoint = format!("{scheme}://{}", address(&sockets.s3));
    let of_operators = |socket: Option<&TcpListener>, scheme: &str| {
        socket.map_or_else(|| "off".to_owned(), |socket| format!("{scheme}://{}", address(socket)))
    };
    let admin = of_operators(sockets.admin.as_ref(), "http");
    let console = of_operators(sockets.console.as_ref(), scheme);
    tracing::info!(
        endpoint,
        admin,
        console,
        meta = %volume.meta,
        blocks = %volume.blocks,
        version = crate::build::VERSION,
        "serving"
    );
    if let Source::Created(file) = &root.source {
        let file = file.display();
        tracing::info!(%file, "created root credentials; only this user can read the file");
    }
    if volume.log_format == LogFormat::Text && std::io::stdout().is_terminal() {
        crate::output::say(format_args!("{}", snippet(&endpoint, &serve.region, root)));
    }
    supervisor::ready();
}

/// Returns commands to paste into a shell and into Python. Credentials from the environment are
/// shown as variables.
fn snippet(endpoint: &str, region: &str, root: &Root) -> String {
    // Clients cannot connect to an unspecified address, so the snippet shows the loopback.
    let endpoint = endpoint.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
    let (user, password, origin, python) = match &root.source {
        Source::Environment => (
            "\"$ASHLAR_ROOT_USER\"".to_owned(),
            "\"$ASHLAR_ROOT_PASSWORD\"".to_owned(),
            String::new(),
            ("os.environ[\"ASHLAR_ROOT_USER\"]".to_owned(), {
                "os.environ[\"ASHLAR_ROOT_PASSWORD\"]".to_owned()
            }),
        ),
        Source::File(path) | Source::Created(path) => {
            let (user, password) = (root.user.clone(), root.password.expose().to_owned());
            let python = (format!("\"{user}\""), format!("\"{password}\""));
            let origin = format!("  The credentials are in {}.\n", path.display());
            (user, password, origin, python)
        }
    };
    let import =
        if root.source == Source::Environment { "import os, boto3" } else { "import boto3" };
    format!(
        "\nAshlar serves S3 at {endpoint}\n{origin}\n  \
         mc alias set ashlar {endpoint} {user} {password}\n\n  \
         {import}\n  s3 = boto3.client(\n      \"s3\",\n      endpoint_url=\"{endpoint}\",\n      \
         region_name=\"{region}\",\n      aws_access_key_id={},\n      aws_secret_access_key={},\n  \
         )\n",
        python.0, python.1
    )
}
