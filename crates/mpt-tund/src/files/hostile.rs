//! What must hold of any bytes between the daemon and the process that keeps its files. See
//! [`crate::hostile`].

use std::fmt::Debug;
use std::io::Write as _;
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{self, Answer, Question};

/// What a socket holds without anybody reading it, however it is written again.
const MOST_BYTES: usize = 16 << 10;

/// Any bytes are messages or end the conversation, and what was understood says the same when it is written
/// and read again.
pub(crate) fn conversation(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST_BYTES)];
    heard::<Question>(bytes);
    heard::<Answer>(bytes);
}

fn heard<M: Debug + Serialize + DeserializeOwned>(bytes: &[u8]) {
    let from = holding(|to| to.write_all(bytes).expect("a socket's buffer has room"));
    while let Ok((message, file)) = wire::receive::<M>(&from) {
        assert!(file.is_none());
        let again = holding(|to| wire::send(to, &message, None).expect("a message can be sent"));
        let (again, _) = wire::receive::<M>(&again).expect("what is sent is understood");
        assert_eq!(format!("{message:?}"), format!("{again:?}"));
    }
}

/// A socket from which what was written is to be read, and then its end.
fn holding(write: impl FnOnce(&mut &UnixStream)) -> UnixStream {
    let (here, there) = UnixStream::pair().expect("two sockets");
    write(&mut &here);
    there
}
