//! The program `ashlar`, built beside the tests that start, kill and stop it.
//!
//! It differs from the one that users run in its name alone.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    server::main()
}
