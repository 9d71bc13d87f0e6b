//! Where the requests for a bucket go: found once, by the SDK's own rules.
//!
//! So the bucket is in the path or in the host name for the same endpoints, regions and names as
//! in the requests that the SDK makes. Everything in an address is encoded as it is sent.

use aws_sdk_s3::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use futures::FutureExt;
use http::{HeaderValue, Uri};
use sigv4::uri::escape_path;

use super::options::BucketOptions;

/// Where a bucket is.
#[derive(Debug)]
pub(super) struct Address {
    /// Scheme, host and port: where connections go.
    pub(super) endpoint: Uri,
    /// What requests say as their `Host`: with its port unless that goes without saying.
    pub(super) host: HeaderValue,
    /// The path that the names of blocks follow: begins and ends with a slash.
    root: String,
    /// The region that requests are signed for.
    pub(super) region: String,
    /// The service that requests are signed for.
    pub(super) service: String,
}

impl Address {
    /// Where a bucket with these options is. `prefix` is empty or ends with a slash.
    ///
    /// # Errors
    /// Why there can be no such bucket, for the operator.
    pub(super) fn find(options: &BucketOptions, prefix: &str) -> Result<Address, String> {
        let asked = Params::builder()
            .bucket(&options.bucket)
            .region(&options.region)
            .set_endpoint(options.endpoint.clone())
            .force_path_style(options.path_style)
            .build()
            .map_err(|error| error.to_string())?;
        let resolver = DefaultResolver::new();
        let found = ResolveEndpoint::resolve_endpoint(&resolver, &asked).now_or_never();
        let found = found.ok_or("the place of the bucket must be asked for")?;
        let found = found.map_err(|error| error.to_string())?;
        let schemes = found.auth_schemes();
        let scheme = schemes.iter().find(|scheme| scheme.name() == "sigv4");
        if scheme.is_none() && !schemes.is_empty() {
            return Err("the bucket wants another signature than AWS4-HMAC-SHA256".to_owned());
        }
        let signing = |property: &str, default: &str| {
            let said = scheme.and_then(|scheme| scheme.get(property)?.as_string());
            said.unwrap_or(default).to_owned()
        };
        let region = signing("signingRegion", &options.region);
        let service = signing("signingName", "s3");
        let url: Uri = found.url().parse().map_err(|error| format!("{}: {error}", found.url()))?;
        let (endpoint, host) = rim(&url)?;
        let root = format!("{}/{}", url.path().trim_end_matches('/'), escape_path(prefix));
        Ok(Address { endpoint, host, root, region, service })
    }

    /// The path of a name beside the blocks, which consists of letters, digits and slashes.
    pub(super) fn path(&self, name: &str) -> String {
        debug_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'/'));
        [&self.root, name].concat()
    }
}

/// An address without its path, and how a request names it.
fn rim(url: &Uri) -> Result<(Uri, HeaderValue), String> {
    let (Some(scheme), Some(host)) = (url.scheme_str(), url.host()) else {
        return Err(format!("{url} does not say where it is"));
    };
    let usual = if scheme == "https" { 443 } else { 80 };
    let authority = match url.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let endpoint = format!("{scheme}://{authority}/").parse();
    let endpoint = endpoint.map_err(|error| format!("{url}: {error}"))?;
    let host = HeaderValue::from_str(&authority).map_err(|error| format!("{url}: {error}"))?;
    Ok((endpoint, host))
}

#[cfg(test)]
mod tests;
