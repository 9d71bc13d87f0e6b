//! Tests of the engine with a real server.
//!
//! They need a server on which databases may be created, named by `ASHLAR_TEST_MYSQL`, for example
//! `mysql://root@127.0.0.1:3306/mysql`. Without it they print a message and pass, unless
//! `ASHLAR_TEST_REQUIRE_SERVICES=1`. Tests that kill a server or change its settings start one of
//! their own.

mod asked;
mod bench;
mod conformance;
mod faults;
mod full;
mod galera;
mod gateways;
mod hosts;
mod memory;
mod opening;
mod service;
mod tls;
