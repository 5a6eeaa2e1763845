//! Any bytes between the daemon and the process that keeps its files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::files(bytes));
