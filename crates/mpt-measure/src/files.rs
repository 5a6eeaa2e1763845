//! The files that a report goes to.
//!
//! That one cannot be written is said before a measurement, which may take long. But nothing in it is touched until
//! there is something to write: a measurement that comes to nothing leaves the last one's file as it was, and none
//! where there was none. A file that is read, or that two things would be written to, is refused.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::args::OutputArgs;

/// The name of the standard output.
pub(crate) const STDOUT: &str = "-";

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{option} {}: that is the capture which is read, and would be lost: give another file",
        path.display()
    )]
    Input { option: &'static str, path: PathBuf },
    #[error(
        "{option} {}: the standard output goes there, and one would overwrite the other: give another file, or `{option} -` alone",
        path.display()
    )]
    Output { option: &'static str, path: PathBuf },
    #[error("--csv and --plot are the same file, {}: give each its own", path.display())]
    Same { path: PathBuf },
    #[error("--json goes to the standard output, and so would `{option} -`: give {option} a file")]
    Json { option: &'static str },
}

/// A file whatever its names are: its device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    /// Of an open file; `None` of a pipe, a terminal, /dev/null: nothing is lost where two of them are one.
    pub(crate) fn of(file: impl AsFd) -> Option<Identity> {
        let duplicate = file.as_fd().try_clone_to_owned().ok()?;
        Self::from(&File::from(duplicate).metadata().ok()?)
    }

    /// Of the file at `path`, likewise. It is not opened: a pipe would lose its writer.
    pub(crate) fn at(path: &Path) -> Option<Identity> {
        Self::from(&fs::metadata(path).ok()?)
    }

    fn from(metadata: &Metadata) -> Option<Identity> {
        let is_file = metadata.is_file();
        is_file.then(|| Identity(metadata.dev(), metadata.ino()))
    }
}

/// Where a report goes besides, or instead of, the standard output.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    csv: Option<Place<'a>>,
    plot: Option<Place<'a>>,
}

#[derive(Debug)]
enum Place<'a> {
    Stdout,
    /// One that was there, open, with what it held.
    Old(&'a Path, File),
    /// One that can be made.
    New(&'a Path),
}

impl<'a> Files<'a> {
    /// Makes sure that the files of `output` can be written, and that none of them is `input`, which is read. With
    /// `json` the standard output is taken.
    ///
    /// # Errors
    /// Which file cannot be written, or may not.
    pub(crate) fn check(
        output: Option<&'a OutputArgs>,
        input: Option<Identity>,
        json: bool,
    ) -> Result<Self, FileError> {
        let mut checking = Checking {
            input,
            stdout: Identity::of(io::stdout()),
            json,
            made: Vec::new(),
        };
        output.map_or(
            Ok(Files {
                csv: None,
                plot: None,
            }),
            |output| checking.files(output),
        )
    }

    /// Writes a report's table and picture, those that are wanted. Gives back what goes to the standard output in the
    /// report's stead.
    ///
    /// # Errors
    /// A file that cannot be written after all.
    pub(crate) fn write(
        self,
        csv: impl FnOnce() -> String,
        plot: impl FnOnce() -> String,
    ) -> Result<Option<String>, FileError> {
        let csv = match self.csv {
            Some(place) => place.write(csv())?,
            None => None,
        };
        let plot = match self.plot {
            Some(place) => place.write(plot())?,
            None => None,
        };
        Ok(csv.or(plot))
    }

    /// Whether the standard output is for one of them.
    pub(crate) fn take_stdout(&self) -> bool {
        let places = [&self.csv, &self.plot];
        places
            .iter()
            .any(|place| matches!(place, Some(Place::Stdout)))
    }
}

/// The files while they are checked.
struct Checking<'a> {
    input: Option<Identity>,
    stdout: Option<Identity>,
    json: bool,
    /// What was not there before.
    made: Vec<&'a Path>,
}

impl<'a> Checking<'a> {
    fn files(&mut self, output: &'a OutputArgs) -> Result<Files<'a>, FileError> {
        let (csv, csv_file) = self.place("--csv", output.csv.as_deref())?;
        let (plot, plot_file) = self.place("--plot", output.plot.as_deref())?;
        match &output.plot {
            Some(path) if plot_file.is_some() && plot_file == csv_file => {
                Err(FileError::Same { path: path.clone() })
            }
            Some(_) | None => Ok(Files { csv, plot }),
        }
    }

    fn place(
        &mut self,
        option: &'static str,
        path: Option<&'a Path>,
    ) -> Result<(Option<Place<'a>>, Option<Identity>), FileError> {
        let Some(path) = path else {
            return Ok((None, None));
        };
        if path == Path::new(STDOUT) {
            return match self.json {
                true => Err(FileError::Json { option }),
                false => Ok((Some(Place::Stdout), None)),
            };
        }
        let (file, is_new) = open_or_make(path).map_err(|source| in_file(path, source))?;
        if is_new {
            self.made.push(path);
        }
        let identity = Identity::of(&file);
        let path_buf = path.to_path_buf();
        if identity.is_some() && identity == self.input {
            return Err(FileError::Input {
                option,
                path: path_buf,
            });
        }
        if identity.is_some() && identity == self.stdout {
            return Err(FileError::Output {
                option,
                path: path_buf,
            });
        }
        let place = match is_new {
            true => Place::New(path),
            false => Place::Old(path, file),
        };
        Ok((Some(place), identity))
    }
}

impl Drop for Checking<'_> {
    /// Removes what was made to see whether it can be.
    fn drop(&mut self) {
        for path in &self.made {
            let _ = fs::remove_file(path);
        }
    }
}

impl Place<'_> {
    fn write(self, text: String) -> Result<Option<String>, FileError> {
        let (path, written) = match self {
            Place::Stdout => return Ok(Some(text)),
            Place::Old(path, file) => (path, replace(file, &text)),
            Place::New(path) => (path, fs::write(path, &text)),
        };
        written.map_err(|source| in_file(path, source))?;
        Ok(None)
    }
}

/// Opens a file without a change to it, and says whether it was made for that.
fn open_or_make(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // One that a link names and that is not there is made.
            Ok((options.create(true).truncate(false).open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

fn replace(mut file: File, text: &str) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(text.as_bytes())
}

fn in_file(path: &Path, source: io::Error) -> FileError {
    FileError::Write {
        path: path.into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(csv: &Path, plot: Option<&Path>) -> OutputArgs {
        OutputArgs {
            dt: 200,
            bt: 200,
            literal: false,
            csv: Some(csv.into()),
            plot: plot.map(Into::into),
        }
    }

    #[test]
    fn nothing_is_made_or_emptied_until_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "what was measured before").unwrap();
        let output = output(&old, Some(&new));
        let files = Files::check(Some(&output), None, true).unwrap();
        assert!(!new.exists());
        assert_eq!(
            fs::read_to_string(&old).unwrap(),
            "what was measured before"
        );
        let written = files.write(|| "csv".into(), || "svg".into());
        assert_eq!(written.unwrap(), None);
        assert_eq!(fs::read_to_string(&old).unwrap(), "csv");
        assert_eq!(fs::read_to_string(&new).unwrap(), "svg");
    }

    #[test]
    fn a_file_by_another_name_is_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        let refused = |output: &OutputArgs, input| {
            let checked = Files::check(Some(output), input, false);
            checked.unwrap_err().to_string()
        };
        let both = output(&file, Some(&file));
        assert!(refused(&both, None).starts_with("--csv and --plot are the same file"));
        assert!(!file.exists());
        fs::write(&file, "a capture").unwrap();
        fs::hard_link(&file, &link).unwrap();
        let both = output(&file, Some(&link));
        assert!(refused(&both, None).starts_with("--csv and --plot are the same file"));
        let input = Identity::of(File::open(&file).unwrap());
        let refusal = refused(&output(&link, None), input);
        assert!(
            refusal.contains("that is the capture which is read"),
            "{refusal}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "a capture");
    }

    #[test]
    fn what_keeps_nothing_may_be_both() {
        let null = Path::new("/dev/null");
        let output = output(null, Some(null));
        let files = Files::check(Some(&output), None, false).unwrap();
        assert_eq!(files.write(|| "csv".into(), || "svg".into()).unwrap(), None);
    }

    #[test]
    fn a_dash_is_the_standard_output_and_has_room_for_one() {
        let dash = Path::new(STDOUT);
        let table = output(dash, None);
        let files = Files::check(Some(&table), None, false).unwrap();
        assert!(files.take_stdout());
        assert_eq!(
            files
                .write(|| "csv".into(), String::new)
                .unwrap()
                .as_deref(),
            Some("csv")
        );
        let refusal = Files::check(Some(&table), None, true)
            .unwrap_err()
            .to_string();
        assert!(
            refusal.contains("--json goes to the standard output"),
            "{refusal}"
        );
    }
}
