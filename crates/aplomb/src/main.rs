//! The binary: see the library.

fn main() -> std::process::ExitCode {
    aplomb::cli::main()
}
