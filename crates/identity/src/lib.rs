//! Identity: it authenticates the sender of a request, and decides if the sender has a permission.
//!
//! Every view of a volume uses it, so that one access key has the same rights in each view.
//!
//! - [`Access`] holds accounts, access keys with their secrets, policies and web roles in memory.
//!   [`Access::read`] reads them from the volume, and [`Access::follow`] follows their changes.
//! - [`Access::authenticate`] verifies the signature of a request, also that of a session with
//!   temporary credentials, and returns the [`Identity`] of the sender.
//! - [`Access::assume_role`] and [`Access::assume_role_with_web_identity`] begin such sessions.
//! - [`Access::log_in`] and [`Access::resume`] are the logins of people in a view with pages;
//!   [`Access::begin_web_login`] and [`Access::finish_web_login`] are those at an OpenID issuer.
//! - [`Sender`] decides about the permissions of one authenticated request: with the policies of
//!   its user and its session, the bucket policy, the ACLs and the public access block.
//!
//! A new view calls them in this order. At its start it creates an `Access` with the key of the
//! operator and the master key, calls `read` once, and runs `follow` in a task until it stops. For
//! each request it parses the credentials, calls `authenticate`, creates a [`Sender`], and asks
//! [`Sender::has_permission`] for each permission that the request needs. Only then does it call
//! the volume. For example, a console asks for `s3:ListBucket` before it shows the objects of a
//! bucket. `examples/list_bucket.rs` is a view of this kind.
//!
//! The invariant: a record that cannot be decoded, and a policy that cannot be read, grant nothing.
//! The crate knows no socket, no response and no configuration file. A refused signature is the
//! error of S3, an [`s3::Fault`], which has an HTTP status; a decision fails with the error of the
//! volume.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod access;
mod assume_role;
mod authenticate;
mod follow;
mod log_delivery;
mod login;
mod origin;
mod sender;
mod web_login;

pub use access::{
    Access, Bearer, BearerError, Identity, MasterKey, SealError, Secret, UMASK_DEFAULT, Unusable,
    WebLogin, WebRole,
};
pub use assume_role::WebSession;
pub use authenticate::{AcceptedSignatures, Authenticated};
pub use log_delivery::{LogDelivery, LogRefusal};
pub use login::{LOGIN_IDLE_MAX, LOGIN_MAX, Login, LoginError, TICKET_BYTES_MAX};
pub use openid::{CodeClient, CodeError, ProviderError};
pub use origin::{ClientAddress, RequestOrigin};
pub use sender::Sender;
pub use web_login::{
    BegunWebLogin, FinishedWebLogin, WEB_LOGIN_WAIT, WebLoginAttempt, WebLoginError, WebLoginOffer,
};
