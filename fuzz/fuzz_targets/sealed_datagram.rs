//! Any bytes for an end that has a session.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::sealed_datagram(bytes));
