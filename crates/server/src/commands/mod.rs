//! The commands of the program, except `serve`. Each module is one command.

pub(crate) mod account;
mod administration;
pub(crate) mod bench;
pub(crate) mod bucket;
pub(crate) mod check;
pub(crate) mod dump;
mod first_secret;
pub(crate) mod fstab;
pub(crate) mod group;
mod issued;
pub(crate) mod job;
pub(crate) mod key;
pub(crate) mod mount;
mod mount_reload;
pub(crate) mod node;
pub(crate) mod pages;
pub(crate) mod policy;
mod refusal;
pub(crate) mod remote;
pub(crate) mod ring;
pub(crate) mod stats;
pub(crate) mod token;
pub(crate) mod trash;
pub(crate) mod upkeep;
pub(crate) mod user;
pub(crate) mod warmup;
