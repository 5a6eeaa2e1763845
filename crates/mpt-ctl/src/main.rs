//! The program mpt-ctl; all that it does stands in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mpt_ctl::run()
}
