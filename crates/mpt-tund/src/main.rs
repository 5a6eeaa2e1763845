//! The program mpt-tund; all that it does stands in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mpt_tund::run()
}
