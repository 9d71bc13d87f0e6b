//! The login at Vault: a token, and its renewal.
//!
//! ```text
//! no token --log in--> token --2/3 of its life--> renew, or log in again --> token
//!                            --refused----------> log in again -----------> token
//! ```
//!
//! At most one login runs at a time; other requests wait for it. A token that cannot be renewed is
//! used until the server refuses it. For example, if Vault is sealed for a minute while a renewal
//! is due, the old token still works afterwards.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tracing::warn;
use zeroize::Zeroizing;

use crate::error::{KmsError, KmsErrorKind};
use crate::http_client::{Answer, HttpClient, shown};
use crate::key_name::KmsKeyName;

/// The header that carries the token.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-vault-token");

/// The shortest time between two logins because the server refuses a token. So requests that the
/// policy of the token does not allow cause no flood of logins.
const LOGIN_INTERVAL_MIN: Duration = Duration::from_secs(5);

/// The time between two checks for a renewal that is due. Tokens live longer.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The limit of a file with a token or a secret, in bytes.
const FILE_BYTES_MAX: usize = 4 << 10;

/// The way to get a token. The files are read again at each login, so another program can replace
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultLogin {
    /// A token in a file. If its policy allows it, the client renews it.
    Token {
        /// The file with the token.
        file: PathBuf,
    },
    /// The `AppRole` method.
    AppRole {
        /// The id of the role.
        role: String,
        /// The file with the secret id.
        secret_file: PathBuf,
    },
}

/// A token. It is never printed.
#[derive(Clone)]
pub(super) struct Token(HeaderValue);

impl Token {
    fn new(text: &str) -> Option<Token> {
        let mut header = HeaderValue::from_str(text).ok().filter(|header| !header.is_empty())?;
        header.set_sensitive(true);
        Some(Token(header))
    }

    /// Returns the value of the header with the token.
    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// The error of a login.
pub(super) struct LoginError {
    kind: KmsErrorKind,
    cause: String,
}

impl LoginError {
    fn new(kind: KmsErrorKind, cause: impl Into<String>) -> LoginError {
        LoginError { kind, cause: cause.into() }
    }

    /// Returns the error for a request about a key.
    pub(super) fn of(self, name: &KmsKeyName) -> KmsError {
        KmsError::new(name, self.kind, self.cause)
    }
}

/// The state of a login.
struct Current {
    token: Token,
    since: Instant,
    /// The time at which the token is renewed; `None` if it does not expire.
    renew_at: Option<Instant>,
}

/// The login of this process.
pub(super) struct Logins {
    login: VaultLogin,
    current: Mutex<Option<Current>>,
}

impl Logins {
    pub(super) fn new(login: VaultLogin) -> Logins {
        Logins { login, current: Mutex::new(None) }
    }

    /// Returns the token, after a login if there is none.
    pub(super) async fn token(&self, http: &HttpClient) -> Result<Token, LoginError> {
        let mut current = self.current.lock().await;
        if let Some(current) = &*current {
            return Ok(current.token.clone());
        }
        let new = self.log_in(http).await?;
        let token = new.token.clone();
        *current = Some(new);
        Ok(token)
    }

    /// Returns another token than `refused`, after a login if needed; `None` if the last login was
    /// just before, so that another one would change nothing.
    pub(super) async fn replaced(
        &self,
        http: &HttpClient,
        refused: &Token,
    ) -> Result<Option<Token>, LoginError> {
        let mut current = self.current.lock().await;
        if let Some(current) = &*current {
            if current.token.0 != refused.0 {
                return Ok(Some(current.token.clone()));
            }
            if current.since.elapsed() < LOGIN_INTERVAL_MIN {
                return Ok(None);
            }
        }
        let new = self.log_in(http).await?;
        let token = new.token.clone();
        *current = Some(new);
        Ok(Some(token))
    }

    /// Renews the token whenever it is due, for ever.
    pub(super) async fn keep(&self, http: &HttpClient) {
        loop {
            sleep(CHECK_INTERVAL).await;
            self.renew_if_due(http).await;
        }
    }

    /// Renews the token if it is due. If this fails, the next check tries again.
    pub(super) async fn renew_if_due(&self, http: &HttpClient) {
        let mut current = self.current.lock().await;
        let due =
            current.as_ref().and_then(|current| Some((current.token.clone(), current.renew_at?)));
        let Some((token, _)) = due.filter(|(_, at)| *at <= Instant::now()) else { return };
        let renewed = match &self.login {
            VaultLogin::Token { .. } => renew(http, token).await,
            VaultLogin::AppRole { .. } => self.log_in(http).await,
        };
        match renewed {
            Ok(renewed) => *current = Some(renewed),
            Err(error) => {
                warn!(
                    cause = error.cause,
                    "the login at Vault cannot be renewed; it will be tried again"
                );
            }
        }
    }

    async fn log_in(&self, http: &HttpClient) -> Result<Current, LoginError> {
        match &self.login {
            VaultLogin::Token { file } => {
                let token = Token::new(&content(file).await?).ok_or_else(|| {
                    LoginError::new(
                        KmsErrorKind::Refused,
                        format!("there is no token in {}", file.display()),
                    )
                })?;
                look_up(http, token).await
            }
            VaultLogin::AppRole { role, secret_file } => {
                let secret = content(secret_file).await?;
                let body = json!({ "role_id": role, "secret_id": secret.as_str() });
                let answer = http.send("/v1/auth/approle/login", &[], Some(&body)).await;
                let answer = answer.map_err(unavailable)?;
                match (answer.status, answer.json()) {
                    (StatusCode::OK, Some(json)) => {
                        let auth = &json["auth"];
                        let token = Token::new(auth["client_token"].as_str().unwrap_or_default());
                        let token = token.ok_or_else(|| unavailable("Vault returns no token"))?;
                        Ok(Current::new(token, &auth["lease_duration"]))
                    }
                    // Vault answers 400 for a wrong role or secret.
                    (StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN, _) => {
                        let cause = format!("Vault refuses the AppRole ({})", errors(&answer));
                        Err(LoginError::new(KmsErrorKind::Refused, cause))
                    }
                    (status, _) => Err(unavailable(format!(
                        "Vault answers a login with {status} ({})",
                        errors(&answer)
                    ))),
                }
            }
        }
    }
}

impl Current {
    /// Returns a token that lives for a number of seconds from now; 0 means for ever.
    fn new(token: Token, seconds: &Value) -> Current {
        let since = Instant::now();
        let life = seconds.as_u64().filter(|seconds| *seconds > 0);
        let renew_at = life.and_then(|life| since.checked_add(Duration::from_secs(life) * 2 / 3));
        Current { token, since, renew_at }
    }
}

/// Asks for the life of a token.
async fn look_up(http: &HttpClient, token: Token) -> Result<Current, LoginError> {
    let answer = http.send("/v1/auth/token/lookup-self", &[(TOKEN, token.header())], None).await;
    let answer = answer.map_err(unavailable)?;
    match (answer.status, answer.json()) {
        (StatusCode::OK, Some(json)) => {
            let renewable = json["data"]["renewable"].as_bool().unwrap_or(false);
            let life = if renewable { &json["data"]["ttl"] } else { &Value::Null };
            Ok(Current::new(token, life))
        }
        (StatusCode::FORBIDDEN, _) => {
            let cause = format!("Vault refuses the token ({})", errors(&answer));
            Err(LoginError::new(KmsErrorKind::Refused, cause))
        }
        (status, _) => {
            Err(unavailable(format!("Vault answers a login with {status} ({})", errors(&answer))))
        }
    }
}

/// Renews a token.
async fn renew(http: &HttpClient, token: Token) -> Result<Current, LoginError> {
    let headers = [(TOKEN, token.header())];
    let answer = http.send("/v1/auth/token/renew-self", &headers, Some(&json!({}))).await;
    let answer = answer.map_err(unavailable)?;
    match (answer.status, answer.json()) {
        (StatusCode::OK, Some(json)) => Ok(Current::new(token, &json["auth"]["lease_duration"])),
        (status, _) => Err(LoginError::new(
            KmsErrorKind::Refused,
            format!("Vault answers a renewal with {status} ({})", errors(&answer)),
        )),
    }
}

/// Reads a file with one secret.
async fn content(path: &Path) -> Result<Zeroizing<String>, LoginError> {
    let failed = |cause: &dyn fmt::Display| {
        LoginError::new(KmsErrorKind::Refused, format!("cannot read {}: {cause}", path.display()))
    };
    let path = path.to_owned();
    let shown = failed(&"the task was cancelled");
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let text = read.map_err(|_| shown)?.map(Zeroizing::new).map_err(|error| failed(&error))?;
    if text.len() > FILE_BYTES_MAX {
        return Err(failed(&"it is too large for a token or a secret"));
    }
    Ok(Zeroizing::new(text.trim().to_owned()))
}

/// Returns the texts of an answer with an error.
pub(super) fn errors(answer: &Answer) -> String {
    let json = answer.json().unwrap_or_default();
    let texts = json["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    shown(&texts.collect::<Vec<_>>().join(", "))
}

fn unavailable(cause: impl Into<String>) -> LoginError {
    LoginError::new(KmsErrorKind::Unavailable, cause)
}

/// Omits the token.
impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").field("login", &self.login).finish_non_exhaustive()
    }
}
