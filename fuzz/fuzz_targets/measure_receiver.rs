//! Any packets for `mpt-ctl measure receive`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::measure_receiver(bytes));
