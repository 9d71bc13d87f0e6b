//! The program `ashlar`: commands, configuration, listeners, telemetry, shutdown.
//!
//! This is the only crate that reads the environment and names engines. It wires the others
//! together and knows what none of them does: sockets, TLS, signals, files of secrets.

mod backend;
mod cli;
mod commands;
mod config;
mod credentials;
mod edge;
mod engines;
mod environment;
mod founding;
mod instance;
mod keeper;
mod logging;
mod metrics;
mod metrics_listener;
mod mount;
mod node_report;
mod operator;
mod outcome;
mod output;
mod private;
mod problem;
mod safe_name;
mod serve;
mod tls;
mod web_roles;

pub use cli::main;
