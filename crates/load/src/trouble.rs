//! The errors of a load. For example, "cannot prepare the round: preparing failed: GET /k gave 3
//! bytes …".

use http::StatusCode;

/// The reason why a request or a round failed. The text fits after "cannot …:".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// The endpoint or the bucket is not valid in a request.
    #[error("{0:?} is not an endpoint such as https://host:9000, without a path")]
    Endpoint(String),
    /// The credentials are not valid in a header.
    #[error("the credentials have characters that no header can carry")]
    Credentials,
    /// The file of trusted certificates cannot be used.
    #[error("the certificates to trust cannot be used: {0}")]
    Certificates(String),
    /// The endpoint cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The host and port.
        address: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The connection broke during a request.
    #[error("{request}: the connection broke: {source}")]
    Broken {
        /// Method and path.
        request: String,
        /// The error of the connection.
        source: hyper::Error,
    },
    /// The response has an unexpected status.
    #[error("{request} was answered {status}{said}")]
    Answer {
        /// Method and path.
        request: String,
        /// The status of the response.
        status: StatusCode,
        /// The error code and message in the body, with ": " before them; empty if the body has
        /// none.
        said: String,
    },
    /// The response has the right status but the wrong content.
    #[error("{request} {wrong}")]
    Content {
        /// Method and path.
        request: String,
        /// The mistake.
        wrong: String,
    },
    /// Requests still had no response this number of seconds after the begin of the round, long
    /// after its end.
    #[error("requests were not answered within {0} s")]
    Stalled(u64),
    /// There are no objects for the workload. The text is the reason, for example that no PUT round
    /// wrote them.
    #[error("{0}")]
    Nothing(&'static str),
    /// An object for a round could not be written, or a read returned another content.
    #[error("preparing failed: {0}")]
    Preparing(String),
    /// The run was stopped.
    #[error("interrupted")]
    Stopped,
    /// A system call of the client failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation that failed.
        doing: String,
        /// The error of the system.
        source: std::io::Error,
    },
}
