//! What a gateway prints when it starts: where it listens, and how clients reach it.

use std::io::IsTerminal;

use tokio::net::TcpListener;

use crate::config::{LogFormat, ServeSettings, VolumeSettings};
use crate::credentials::{Root, Source};

/// Logs where the gateway listens, and the file of the root credentials if they were made now. On a
/// terminal also prints what to paste into clients. Elsewhere standard output often ends in a log
/// collector, so no secret is printed there, and none with JSON logs.
pub(super) fn say(
    volume: &VolumeSettings,
    serve: &ServeSettings,
    root: &Root,
    socket: &TcpListener,
    admin: Option<&TcpListener>,
) {
    let address = |socket: &TcpListener| {
        socket.local_addr().map_or_else(|_| "unknown".to_owned(), |address| address.to_string())
    };
    let scheme = if serve.tls.is_some() { "https" } else { "http" };
    let endpoint = format!("{scheme}://{}", address(socket));
    let admin =
        admin.map_or_else(|| "off".to_owned(), |socket| format!("http://{}", address(socket)));
    tracing::info!(
        endpoint,
        admin,
        meta = %volume.meta,
        blocks = %volume.blocks,
        version = env!("CARGO_PKG_VERSION"),
        "serving"
    );
    if let Source::Made(file) = &root.source {
        let file = file.display();
        tracing::info!(%file, "root credentials were made; only this user can read the file");
    }
    if volume.log_format == LogFormat::Text && std::io::stdout().is_terminal() {
        crate::output::say(format_args!("{}", snippet(&endpoint, &serve.region, root)));
    }
}

/// What to paste into clients. Credentials that the operator set are shown as variables.
fn snippet(endpoint: &str, region: &str, root: &Root) -> String {
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
        Source::File(path) | Source::Made(path) => {
            let (user, password) = (root.user.clone(), root.password.expose().to_owned());
            let python = (format!("\"{user}\""), format!("\"{password}\""));
            let origin = format!("  The credentials are kept in {}.\n", path.display());
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
