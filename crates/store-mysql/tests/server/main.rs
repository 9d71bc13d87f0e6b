//! Tests of the engine against a real server.
//!
//! They need a server on which databases may be made, named by `ASHLAR_TEST_MYSQL`, such as
//! `mysql://root@127.0.0.1:3306/mysql`. Without it they say so and pass, unless
//! `ASHLAR_TEST_REQUIRE_SERVICES=1`. Those that kill a server or change its settings start one of
//! their own.

mod asked;
mod bench;
mod conformance;
mod faults;
mod full;
mod galera;
mod gateways;
mod memory;
mod opening;
mod service;
mod tls;
