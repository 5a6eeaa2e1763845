//! What `mpt-tund --check` says.
