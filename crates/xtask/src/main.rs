//! The program `xtask`, as `cargo xtask` starts it.

fn main() -> std::process::ExitCode {
    xtask::main()
}
