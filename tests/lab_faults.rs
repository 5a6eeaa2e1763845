//! The faults of docs/faults.md in which delay matters.
//!
//! `MPT_TEST_FAULTS_WRITE=1 INSTA_UPDATE=always ./test native_faults lab_faults` writes the rows of that page anew,
//! and the snapshots.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

#[path = "faults/moving.rs"]
mod moving;
#[path = "faults/silent.rs"]
mod silent;
#[path = "faults/worse.rs"]
mod worse;
