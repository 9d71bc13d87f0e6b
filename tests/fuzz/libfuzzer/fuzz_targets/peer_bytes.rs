//! Calls the target of this name in the crate `fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::check("peer_bytes", input));
