//! The program `ashlar` for the tests that start, kill and stop it.
//!
//! It differs from the released program only in its name.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    server::main()
}
