//! The program `ashlar`: commands, configuration, listeners, telemetry, shutdown.
//!
//! This is the only crate that reads the environment and names the engines. It connects the others,
//! and adds the parts that none of them has: sockets, TLS, signals, and files with secrets. For
//! example, `engines` opens the metadata store that `--meta` names, `serve` passes it to the volume
//! and the gateway, and `edge`, a crate, serves the gateway to HTTP clients.

mod administer;
mod backend;
mod bootstrap;
mod bucket_metrics;
mod build;
mod cli;
mod commands;
mod config;
mod credentials;
mod endpoint;
mod engines;
mod environment;
mod founding;
mod instance;
mod logging;
mod metrics;
mod metrics_listener;
mod minio_variables;
mod mount_log;
mod mount_metrics;
mod node_report;
mod operator;
mod outcome;
mod output;
mod passes;
mod peer_reads;
mod presence;
mod private;
mod reports;
mod ring;
mod rings;
mod safe_name;
mod serve;
mod supervisor;
mod table;
mod timed;
mod unknown_variables;
mod web_roles;

pub use cli::main;
