//! The binary under test: cargo tells tests only where the binaries of their own package are.

use std::process::ExitCode;

fn main() -> ExitCode {
    opgate::cli::main()
}
