//! Errors of a load.

use http::StatusCode;

/// Why a request or a whole round has failed; fits after "cannot …:".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// The endpoint or the bucket cannot stand in a request.
    #[error("{0:?} is not an endpoint such as https://host:9000, without a path")]
    Endpoint(String),
    /// The credentials cannot stand in a header.
    #[error("the credentials have characters that no header can carry")]
    Credentials,
    /// The certificates to trust cannot be used.
    #[error("the certificates to trust cannot be used: {0}")]
    Certificates(String),
    /// The endpoint cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Host and port.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The connection broke during a request.
    #[error("{request}: the connection broke: {source}")]
    Broken {
        /// Method and path.
        request: String,
        /// What the connection says.
        source: hyper::Error,
    },
    /// The response has an unexpected status.
    #[error("{request} was answered {status}{said}")]
    Answer {
        /// Method and path.
        request: String,
        /// Its status.
        status: StatusCode,
        /// Code and message of its body, with ": " before them, or empty.
        said: String,
    },
    /// The response has the right status but the wrong content.
    #[error("{request} {wrong}")]
    Content {
        /// Method and path.
        request: String,
        /// What is wrong.
        wrong: String,
    },
    /// Some requests have no response long after the round should have ended.
    #[error("requests were not answered within {0} s")]
    Stalled(u64),
    /// There is nothing that the workload could work on.
    #[error("{0}")]
    Nothing(&'static str),
    /// What a round needs could not be written, or did not come back.
    #[error("preparing failed: {0}")]
    Preparing(String),
    /// The run was stopped.
    #[error("interrupted")]
    Stopped,
    /// The system refuses what a client needs.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: String,
        /// What the system says.
        source: std::io::Error,
    },
}
