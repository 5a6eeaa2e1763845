//! Any network between two ends with keys.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::sealed_pair(bytes));
