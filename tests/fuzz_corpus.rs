//! Replays what fuzzing found and was worth keeping: fuzz/corpus, by the properties of fuzz/src.

#![allow(clippy::unwrap_used, reason = "a test ends by a panic")]

use std::path::Path;

#[path = "../fuzz/src/codecs.rs"]
mod codecs;
#[path = "../fuzz/src/sealed.rs"]
mod sealed;
#[path = "../fuzz/src/tunnel.rs"]
mod tunnel;

/// Runs a property on every file of a folder of the corpus.
fn replay(target: &str, property: fn(&[u8])) {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    let mut files = 0;
    for file in std::fs::read_dir(Path::new(corpus).join(target)).unwrap() {
        let file = file.unwrap().path();
        println!("{}", file.display());
        property(&std::fs::read(file).unwrap());
        files += 1;
    }
    assert!(files > 0, "fuzz/corpus/{target} is empty");
}

#[test]
fn what_opens_is_what_was_sealed_whatever_the_network_does() {
    replay("sealed_pair", sealed::pair);
}

#[test]
fn nothing_made_up_opens() {
    replay("sealed_datagram", sealed::datagram);
}

#[test]
fn any_bytes_are_a_message_or_are_refused() {
    replay("codecs", codecs::all);
}

#[test]
fn a_tunnel_bears_whatever_happens_to_it() {
    replay("tunnel", tunnel::any);
}
