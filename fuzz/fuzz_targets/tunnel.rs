//! Anything that can happen to a tunnel.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::tunnel(bytes));
