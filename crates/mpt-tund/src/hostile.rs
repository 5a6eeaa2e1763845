//! What must hold whatever stands in a configuration, comes from the netlink socket, or from the process that
//! keeps the files.
//!
//! Each property is a function of any bytes: [`configuration`] here, [`crate::netlink::hostile`] and
//! [`crate::files::hostile`]. The fuzz targets in fuzz/ search for bytes that break them; `cargo test` tries
//! them on what is in fuzz/corpus, and on as many changed copies of each file as `MPT_TEST_MUTATIONS` says.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;

use crate::config::{Config, Files, Mistake, difference, save};

/// The tunnel's file, and those that it may name.
const FILE: &str = "/etc/mpt/mpt0.toml";
const KEYS: [&str; 2] = ["/etc/mpt/private.key", "/etc/mpt/psk.key"];

/// Any text is a configuration that means the same when it is saved, or has a mistake that is told in two
/// lines. What stands behind a NUL is in the files of its keys.
pub(crate) fn configuration(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let (text, key) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let config = match read(text, key) {
        Ok(config) => config,
        Err(mistake) => {
            let told = mistake.to_string();
            assert_eq!(told.lines().count(), 2, "{told:?}");
            assert!(
                !told.replace('\n', "").contains(char::is_control),
                "{told:?}"
            );
            return;
        }
    };
    assert!(difference(&config, &config).is_empty());
    assert!((1..=16).contains(&config.paths.len()) && config.mtu() >= 576);
    let (running, files) = (config.running(), files(text, key));
    let saved = save(Path::new(FILE), &running, &files, |_, text| {
        panic!("nothing was changed, and yet it is {text}")
    });
    assert_eq!(saved.expect("it is as it was"), [""; 0]);
    let mut running = running;
    for (index, (_, weight)) in running.weights.iter_mut().enumerate() {
        *weight = 7 + index as u32;
    }
    let mut replaced = None;
    let saved = save(Path::new(FILE), &running, &files, |_, text| {
        replaced = Some(text.to_owned());
        Ok(())
    });
    assert!(saved.is_ok() || replaced.is_none());
    if let Some(text) = replaced {
        let again = read(text.as_bytes(), key).expect("what was saved is right");
        assert_eq!(again.running(), running);
        assert_eq!(again, config.with(&running));
    }
}

fn read(text: &[u8], key: &[u8]) -> Result<Config, Mistake> {
    Config::read_from(Path::new(FILE), &files(text, key))
}

/// The files, as who keeps them hands them over.
fn files(text: &[u8], key: &[u8]) -> Files {
    let of_keys = KEYS.map(|name| (name.into(), Ok(holding(key))));
    let own = (FILE.into(), Ok(holding(text)));
    Files::Handed([own].into_iter().chain(of_keys).collect())
}

/// A file that stands in no folder.
fn holding(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("room for it");
    file.rewind().expect("a start");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splitmix64: the same bytes each time.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) as usize % bound.max(1)
        }
    }

    /// One to four changes: a bit, a byte, a part that is gone, stands twice, or is another file's.
    fn changed(random: &mut Random, bytes: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            let end = bytes.len().min(at + 1 + random.below(24));
            match random.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
                1 if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
                2 => drop(bytes.drain(at..end)),
                3 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
                4 => bytes.truncate(at),
                _ => {
                    let from = random.below(other.len());
                    let part = &other[from..other.len().min(from + 1 + random.below(24))];
                    bytes.splice(at..at, part.iter().copied());
                }
            }
        }
        bytes
    }

    /// Tries `property` on every file of a corpus, and on changed copies.
    fn replay(name: &str, property: fn(&[u8])) {
        let asked = std::env::var("MPT_TEST_MUTATIONS").ok();
        let copies = asked.and_then(|asked| asked.parse().ok()).unwrap_or(100);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let mut files: Vec<_> = std::fs::read_dir(root.join(name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "an empty corpus tests nothing");
        let contents: Vec<_> = files
            .iter()
            .map(|file| std::fs::read(file).unwrap())
            .collect();
        for (seed, (file, bytes)) in files.iter().zip(&contents).enumerate() {
            println!("{}", file.display());
            property(bytes);
            let mut random = Random(seed as u64);
            for copy in 0..copies {
                let other = &contents[random.below(contents.len())];
                let bytes = changed(&mut random, bytes, other);
                let tried = std::panic::catch_unwind(|| property(&bytes));
                if let Err(panic) = tried {
                    println!("copy {copy}: {:?}", String::from_utf8_lossy(&bytes));
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }

    #[test]
    fn any_text_is_a_configuration_or_has_a_mistake() {
        replay("configuration", configuration);
    }

    #[test]
    fn any_netlink_datagrams_do_no_harm() {
        replay("netlink", crate::netlink::hostile::datagrams);
    }

    #[test]
    fn any_bytes_between_the_daemon_and_who_keeps_its_files_do_no_harm() {
        replay("files", crate::files::hostile::conversation);
    }
}
