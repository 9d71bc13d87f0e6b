//! The web console: pages for operators and users of a volume.
//!
//! The server renders all pages. Forms work without a script; one script uploads files in parts.
//! For example, a user with a policy for the bucket `photos` logs in with the access key, sees
//! `photos` alone, and downloads an object of it.
//!
//! - [`Console::handle`] is the path of each request: assets, login, form token, page.
//! - `pages` has a module for each page. A page calls the functions of [`adminapi::AdminApi`],
//!   which check the permissions of the sender; it shows a control only if the sender may use it.
//! - `objects` reads and writes objects through the gateway of the process, in the name of the
//!   sender.
//!
//! The invariant: each change needs a login, a form token of this login, and a page of this origin.
//! The crate runs no query and knows no record.

#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod assets;
mod console;
mod cookies;
mod ended;
mod forms;
mod layout;
mod listing;
mod login;
mod objects;
mod origin;
mod pages;
mod paths;
mod reply;
mod routes;
mod share;
mod state;
mod throttle;
mod visit;
mod web_login;

pub use crate::console::Console;
pub use state::ConsoleSettings;
