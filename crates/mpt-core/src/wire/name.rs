//! The name of a path, as its end tells it to the other: behind a message of kind 1 of a sealed tunnel.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | length of the name, 1 to 32; 0: none is told |
//! | 1– | the name: letters, digits, `-`, `_` and `.` of ASCII, a letter or digit first |
//!
//! What is anything else is no name. So one that the other end chose can be printed anywhere.

use std::fmt;

use arrayvec::ArrayString;

use super::probe::{MESSAGE_BYTES, PROOF_BYTES};

/// Longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 32;
/// Longest that [`PathName::emit`] writes, in bytes.
pub const LONGEST_NAME: usize = 1 + MAX_NAME_BYTES;

/// A path's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathName(ArrayString<MAX_NAME_BYTES>);

impl PathName {
    /// The name, if it is one.
    #[must_use]
    pub fn new(name: &str) -> Option<PathName> {
        let first = name.bytes().next()?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = first.is_ascii_alphanumeric() && name.bytes().all(allowed);
        ArrayString::from(name)
            .ok()
            .filter(|_| is_name)
            .map(PathName)
    }

    /// Reads what stands behind a message of kind 1 of a sealed tunnel, and its proof.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<PathName> {
        let (&len, rest) = payload.get(MESSAGE_BYTES + PROOF_BYTES..)?.split_first()?;
        let name = rest.get(..usize::from(len))?;
        PathName::new(std::str::from_utf8(name).ok()?)
    }

    /// Bytes that [`PathName::emit`] writes.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        1 + self.0.len()
    }

    /// Writes it to the front of `out`, which has room for it.
    pub fn emit(&self, out: &mut [u8]) {
        out[0] = self.0.len() as u8;
        out[1..=self.0.len()].copy_from_slice(self.0.as_bytes());
    }
}

impl fmt::Display for PathName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(len: u8, name: &[u8]) -> Option<String> {
        let mut payload = vec![0; MESSAGE_BYTES + PROOF_BYTES];
        payload.push(len);
        payload.extend(name);
        PathName::parse(&payload).map(|name| name.to_string())
    }

    #[test]
    fn a_name_is_read_as_it_was_written() {
        for name in ["a", "lte-2.x_Y", "abcdefghijklmnopqrstuvwxyz012345"] {
            let mut payload = [0; MESSAGE_BYTES + PROOF_BYTES + LONGEST_NAME];
            let known = PathName::new(name).unwrap();
            known.emit(&mut payload[MESSAGE_BYTES + PROOF_BYTES..]);
            assert_eq!(PathName::parse(&payload), Some(known));
            assert_eq!(known.to_string(), name);
        }
    }

    #[test]
    fn what_could_do_harm_where_it_is_printed_is_no_name() {
        assert_eq!(told(3, b"lte\0\0").as_deref(), Some("lte"));
        let hostile: [&[u8]; 7] = [
            b"\x1b[2J",
            b"a\nb",
            b"../x",
            b"\xff\xfe",
            b"-x",
            b"a b",
            "ä".as_bytes(),
        ];
        for name in hostile {
            assert_eq!(told(name.len() as u8, name), None, "{name:?}");
        }
        assert_eq!(told(0, b"lte"), None);
        assert_eq!(told(4, b"lte"), None, "cut short");
        assert_eq!(told(33, &[b'a'; 33]), None, "too long");
        assert_eq!(PathName::parse(&[0; MESSAGE_BYTES + PROOF_BYTES]), None);
    }
}
