//! Any text as the file of a tunnel, and of its keys.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::configuration(bytes));
