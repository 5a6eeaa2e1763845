//! The file that keeps what was used, over restarts and power cuts.
//!
//! Text, a line for each path, and a last line with a checksum over all before it:
//!
//! ```text
//! mpt budgets 1
//! lte month=2026-11-01 since=1793491200 used=12345678901
//! check 5d1c0b6f0a4e2a77
//! ```
//!
//! `month` is when the path's month began, `since` when it was begun to count in it (seconds since 1970), `used` bytes.
//! Where the clock went back by more than a month, ` left=2026-11-01` follows: the month that was left by that. Where it
//! went forward by more, ` former=2026-11-01:12345678901` does: the month that was left, and what was used in it.
//! The file is replaced whole: written beside it, brought to the disk, renamed over it, and the folder brought to the
//! disk. So there is the former or the new one at any time.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::calendar::Day;
use crate::config::is_path_name;

const HEAD: &str = "mpt budgets 1\n";
/// Most paths that are remembered, those included that are not configured now.
pub(super) const MAX_ENTRIES: usize = 64;
/// A file of so many paths is shorter, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// What is kept of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) month: Day,
    /// The month before, where the clock went far back since, and not forward again.
    pub(super) left: Option<Day>,
    /// The month before and what was used in it, where the clock went far forward since, and not back again.
    pub(super) former: Option<(Day, u64)>,
    pub(super) since: u64,
    pub(super) used: u64,
}

/// Why nothing is known from before.
#[derive(Debug)]
pub(super) enum ReadError {
    /// There is no file yet.
    None,
    /// It was not written so.
    Damaged,
    /// The system says why.
    Io(io::Error),
}

/// What the file has.
pub(super) fn read(file: &Path) -> Result<Vec<Entry>, ReadError> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ReadError::None),
        Err(error) => return Err(ReadError::Io(error)),
    };
    let mut bytes = Vec::new();
    let read = opened.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(ReadError::Io)?;
    decode(&bytes).ok_or(ReadError::Damaged)
}

/// Puts a file that is of no use aside, with this ending, and says where.
pub(super) fn put_aside(file: &Path, ending: &str) -> io::Result<PathBuf> {
    let mut aside = file.as_os_str().to_owned();
    aside.push(".");
    aside.push(ending);
    fs::rename(file, &aside)?;
    Ok(aside.into())
}

/// Replaces the file, and makes its folder where that is not there.
pub(super) fn write(file: &Path, entries: &[Entry]) -> io::Result<()> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let temporary = file.with_extension("budgets.new");
    let open = || {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&temporary)
    };
    let mut opened = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder)?;
            open()?
        }
        opened => opened?,
    };
    opened.write_all(encode(entries).as_bytes())?;
    opened.sync_all()?;
    fs::rename(&temporary, file)?;
    File::open(folder)?.sync_all()
}

fn encode(entries: &[Entry]) -> String {
    let mut text = HEAD.to_owned();
    for entry in entries {
        let Entry {
            path,
            month,
            left,
            former,
            since,
            used,
        } = entry;
        // Writing into a string does not fail.
        let _ = write!(text, "{path} month={month} since={since} used={used}");
        if let Some(left) = left {
            let _ = write!(text, " left={left}");
        }
        if let Some((month, used)) = former {
            let _ = write!(text, " former={month}:{used}");
        }
        text.push('\n');
    }
    let check = checksum(text.as_bytes());
    let _ = writeln!(text, "check {check:016x}");
    text
}

fn decode(bytes: &[u8]) -> Option<Vec<Entry>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let at = text.rfind("check ")?;
    let (kept, check) = text.split_at(at);
    if check != format!("check {:016x}\n", checksum(kept.as_bytes())) {
        return None;
    }
    let lines = kept.strip_prefix(HEAD)?.lines();
    let entries: Option<Vec<Entry>> = lines.map(entry).collect();
    entries.filter(|entries| entries.len() <= MAX_ENTRIES)
}

fn entry(line: &str) -> Option<Entry> {
    let mut words = line.split(' ');
    let path = words.next().filter(|name| is_path_name(name))?.to_owned();
    let month = Day::parse(words.next()?.strip_prefix("month=")?)?;
    let since = words.next()?.strip_prefix("since=")?.parse().ok()?;
    let used = words.next()?.strip_prefix("used=")?.parse().ok()?;
    let mut words = words.peekable();
    let left = match words.next_if(|word| word.starts_with("left=")) {
        Some(word) => Some(Day::parse(word.strip_prefix("left=")?)?),
        None => None,
    };
    let former = match words.next() {
        Some(word) => {
            let (month, used) = word.strip_prefix("former=")?.split_once(':')?;
            Some((Day::parse(month)?, used.parse().ok()?))
        }
        None => None,
    };
    words.next().is_none().then_some(Entry {
        path,
        month,
        left,
        former,
        since,
        used,
    })
}

/// FNV-1a, 64 bits (RFC 9923): against damage, not against forgers, who may write the file anyway.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let one = (
            "[a-z][a-z0-9.-]{0,31}",
            1u64..100_000,
            prop::option::of(1u64..100_000),
            prop::option::of((1u64..100_000, any::<u64>())),
            any::<u64>(),
            any::<u64>(),
        );
        let one = one.prop_map(|(path, month, left, former, since, used)| Entry {
            path,
            month: Day(month),
            left: left.map(Day),
            former: former.map(|(month, used)| (Day(month), used)),
            since,
            used,
        });
        prop::collection::vec(one, 0..5)
    }

    proptest! {
        /// What was written is read; whatever part of it is there alone, or whatever byte is another, is damage.
        #[test]
        fn a_file_is_read_whole_or_not_at_all(entries in entries(), at in any::<prop::sample::Index>(), other in 1u8..) {
            let mut bytes = encode(&entries).into_bytes();
            prop_assert_eq!(decode(&bytes), Some(entries));
            for len in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..len]), None, "{} bytes", len);
            }
            let at = at.index(bytes.len());
            bytes[at] ^= other;
            prop_assert_eq!(decode(&bytes), None);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decode(&bytes), None);
        }
    }

    #[test]
    fn what_is_well_summed_and_makes_no_sense_is_refused() {
        for line in [
            "",
            "lte",
            "l\u{1b}te month=2026-11-01 since=0 used=0",
            "lte month=2026-02-30 since=0 used=0",
            "lte month=2026-11-01 since=0 used=0 more",
            "lte month=2026-11-01 since=-1 used=0",
            "lte month=2026-06-01 since=0 used=0 left=2026-02-30",
            "lte month=2026-06-01 since=0 used=0 left=2026-11-01 more",
        ] {
            let text = format!("{HEAD}{line}\n");
            let text = format!("{text}check {:016x}\n", checksum(text.as_bytes()));
            assert_eq!(decode(text.as_bytes()), None, "{line:?}");
        }
    }

    /// It is the example at the top of this file.
    #[test]
    fn a_file_of_before_there_was_a_month_that_was_left_is_read() {
        let text = format!("{HEAD}lte month=2026-11-01 since=1793491200 used=12345678901\n");
        let text = format!("{text}check {:016x}\n", checksum(text.as_bytes()));
        let read = decode(text.as_bytes()).unwrap();
        assert_eq!((read[0].left, read[0].used), (None, 12_345_678_901));
        assert_eq!(encode(&read), text);
    }

    #[test]
    fn a_file_is_replaced_and_a_damaged_one_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made").join("mpt0.budgets");
        assert!(matches!(read(&file), Err(ReadError::None)));
        let mut one = vec![Entry {
            path: "lte".to_owned(),
            month: Day(20_000),
            left: None,
            former: None,
            since: 1,
            used: 5,
        }];
        write(&file, &one).unwrap();
        one[0].used = 6;
        write(&file, &one).unwrap();
        assert_eq!(read(&file).unwrap(), one);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() - 3]).unwrap();
        assert!(matches!(read(&file), Err(ReadError::Damaged)));
        let aside = put_aside(&file, "damaged").unwrap();
        assert_eq!(fs::read(aside).unwrap(), whole[..whole.len() - 3]);
        assert!(matches!(read(&file), Err(ReadError::None)));
        let left = fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing temporary");
    }
}
