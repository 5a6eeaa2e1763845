//! Any datagrams from the kernel.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpt_fuzz::netlink(bytes));
