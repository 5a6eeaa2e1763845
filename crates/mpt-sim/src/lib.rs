//! Virtual-time test bench of mpt-core.
