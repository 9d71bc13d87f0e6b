//! The state and the settings of the console.

use std::sync::Arc;

use adminapi::AdminApi;
use time::OffsetDateTime;

use crate::ended::EndedLogins;
use crate::throttle::LoginThrottle;

/// The settings of the console.
#[derive(Clone, Debug, Default)]
pub struct ConsoleSettings {
    /// The URL of the S3 endpoint as clients reach it, for share links. `None` for the host of the
    /// console with the port of `s3_port`.
    pub s3_url: Option<String>,
    /// The port of the S3 endpoint.
    pub s3_port: u16,
    /// The region that clients sign with.
    pub region: String,
}

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct ConsoleState {
    pub(crate) api: Arc<AdminApi>,
    pub(crate) settings: ConsoleSettings,
    pub(crate) throttle: LoginThrottle,
    pub(crate) ended: EndedLogins,
    /// The attempts to log in at an OpenID issuer that have ended, by their `state`.
    pub(crate) ended_attempts: EndedLogins,
}

impl ConsoleState {
    pub(crate) fn new(api: Arc<AdminApi>, settings: ConsoleSettings) -> ConsoleState {
        let (ended, ended_attempts) = (EndedLogins::default(), EndedLogins::default());
        ConsoleState { api, settings, throttle: LoginThrottle::new(), ended, ended_attempts }
    }

    pub(crate) fn now(&self) -> OffsetDateTime {
        rules::time(self.api.volume().now())
    }
}
