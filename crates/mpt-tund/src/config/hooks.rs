//! Section `[hooks]`: commands that are run when something happens to the tunnel.

use super::document::Mistake;
use super::entry::Entry;
use super::section::Section;

/// Most words of a command, the program included.
const MAX_WORDS: usize = 64;
/// What runs a command that is written as a line.
const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Hooks {
    /// Packets get through from now on.
    pub(crate) on_up: Option<Hook>,
    /// None do any more, or the tunnel ends.
    pub(crate) on_down: Option<Hook>,
    /// A path is in another state.
    pub(crate) on_path_change: Option<Hook>,
}

/// A program with its words: at least one, and the first an absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hook(Vec<String>);

impl Hooks {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Hooks::default()
    }
}

impl Hook {
    /// The program and what it is given.
    pub(crate) fn words(&self) -> (&str, &[String]) {
        match self.0.split_first() {
            Some((program, words)) => (program, words),
            None => ("/bin/true", &[]),
        }
    }

    /// A line for the shell.
    pub(crate) fn line(line: &str) -> Hook {
        let words = SHELL.into_iter().chain([line]);
        Hook(words.map(str::to_owned).collect())
    }
}

/// Reads the section.
pub(super) fn hooks(section: &Section<'_>) -> Result<Hooks, Mistake> {
    let read = |key| section.get(key).map(hook).transpose();
    Ok(Hooks {
        on_up: read("on_up")?,
        on_down: read("on_down")?,
        on_path_change: read("on_path_change")?,
    })
}

fn hook(entry: Entry<'_>) -> Result<Hook, Mistake> {
    let example = "\"/usr/local/bin/notify\", \"--quiet\"";
    if !entry.is_list() {
        let line = entry.text("logger -t mpt \\\"$MPT_TUNNEL is $MPT_STATE\\\"")?;
        check(entry, line)?;
        return Ok(Hook::line(line));
    }
    let mut words = Vec::new();
    for word in entry.list(MAX_WORDS, example)? {
        let text = word.text("/usr/local/bin/notify")?;
        if words.is_empty() {
            check(word, text)?;
            if !text.starts_with('/') {
                let what = format!(
                    "\"{}\" is no absolute path of a program",
                    text.escape_debug()
                );
                let remedy =
                    "write the whole path, or one text instead of a list, which /bin/sh runs";
                return Err(word.mistake(what, remedy));
            }
        } else if text.contains('\0') {
            return Err(word.mistake("a word of a command has a zero byte", "leave it out"));
        }
        words.push(text.to_owned());
    }
    if words.is_empty() {
        let what = format!("`{}` is an empty list", entry.key);
        return Err(entry.mistake(what, format!("write [{example}], or leave the key out")));
    }
    Ok(Hook(words))
}

fn check(entry: Entry<'_>, text: &str) -> Result<(), Mistake> {
    if text.trim().is_empty() || text.contains('\0') {
        let what = format!("\"{}\" is no command", text.escape_debug());
        return Err(entry.mistake(what, "write a command, or leave the key out"));
    }
    Ok(())
}

#[cfg(test)]
impl Hook {
    /// A program without words.
    pub(crate) fn program(path: &str) -> Hook {
        Hook(vec![path.to_owned()])
    }
}
