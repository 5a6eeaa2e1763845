//! Any bytes for each of the parsers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::codecs(bytes));
