//! Any bytes as a capture file for `mpt-ctl measure read`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::measure_capture(bytes));
