//! Running settings into the file, around what a person wrote there.
//!
//! `mpt-ctl save` must not cost anybody a comment. So the text is edited, not written anew: only
//! the values that differ from what the file already means are touched, each in its place; a key
//! that is not there is added at the end of its section. The result is read again before it
//! replaces the file.

mod comments;

use std::io;
use std::path::{Path as FilePath, PathBuf};

use mpt_core::control::setting::Setting;
use mpt_core::send::scheduler::Policy;
use mpt_core::tunnel::ReorderSettings;
use thiserror::Error;
use toml_edit::{DocumentMut, Item, RawString, Table, TableLike, Value};

use super::document::{Mistake, Source};
use super::entry::in_one_unit;
use super::files::Files;
use super::replace::{remedy, replace};
use super::{Config, parse};

/// Settings of a running tunnel that `mpt-ctl` may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    /// How packets are shared among paths. Nobody changes it while the tunnel runs, but a file without
    /// the key means another one as soon as it names a weight.
    pub(crate) scheduler: Policy,
    /// How packets that arrive are put in order.
    pub(crate) reorder: ReorderSettings,
    /// Each path's name and weight.
    pub(crate) weights: Vec<(String, u32)>,
}

/// Why the settings could not be saved. The file is as it was.
#[derive(Debug, Error)]
pub(crate) enum SaveError {
    /// The file has a mistake, it was edited since it was read.
    #[error("the file was changed and is not right, so nothing was saved")]
    Mistake(#[from] Mistake),
    /// The process that keeps the files does not hand it over.
    #[error("nothing was saved: {0}")]
    Unread(io::Error),
    /// The file does not have a path that runs.
    #[error(
        "the file {file} has no path \"{name}\" any more, so nothing was saved; `mpt-ctl reload` \
         makes the tunnel follow the file"
    )]
    NoPath {
        /// The path's name.
        name: String,
        /// The file.
        file: PathBuf,
    },
    /// The file puts packets in order in another way, and each way has keys that the other has not.
    #[error(
        "the file {file} has another `mode` in [reorder] than what runs, so nothing was saved; \
         `mpt-ctl reload` makes the tunnel follow the file"
    )]
    Mode {
        /// The file.
        file: PathBuf,
    },
    /// The edited text would not mean what runs.
    #[error(
        "the file {file} is written in a way that cannot be edited, so nothing was saved; write \
         [reorder] and [[paths]] as sections of their own"
    )]
    Form {
        /// The file.
        file: PathBuf,
    },
    /// The file could not be replaced.
    #[error("cannot replace {file}: {why}{}", remedy(why))]
    Replace {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}

/// Writes running settings into a tunnel's file, which `files` has and `replace` replaces. Returns what was
/// changed, one `key = value` each; nothing when the file says it all already, and then it is not touched.
///
/// # Errors
/// See [`SaveError`]; the file is left as it was.
pub(crate) fn save(
    file: &FilePath,
    running: &Running,
    files: &Files,
    replace: impl FnOnce(&FilePath, &str) -> io::Result<()>,
) -> Result<Vec<String>, SaveError> {
    let text = parse::read(file, files)?;
    let parsed = |text: &str| parse::parse(Source { file, text, files }).map(|(config, _)| config);
    let old = parsed(&text)?;
    if old.reorder.block.is_some() != running.reorder.block.is_some() {
        return Err(SaveError::Mode {
            file: file.to_owned(),
        });
    }
    let (mut edited, mut changed) = edit(file, &text, &old, running)?;
    let mut new = parsed(&edited)?;
    // One that the file names stays: somebody wrote it there since, and a reload will follow it.
    if new.tunnel.scheduler != running.scheduler && !names_scheduler(&edited) {
        edited = with_scheduler(&edited, running.scheduler).ok_or_else(|| SaveError::Form {
            file: file.to_owned(),
        })?;
        changed.push(format!("scheduler = \"{}\"", running.scheduler.name()));
        new = parsed(&edited)?;
    }
    if changed.is_empty() {
        return Ok(changed);
    }
    if new.running() != running.in_order_of(&new) {
        return Err(SaveError::Form {
            file: file.to_owned(),
        });
    }
    replace(file, &edited).map_err(|why| SaveError::Replace {
        file: file.to_owned(),
        why,
    })?;
    Ok(changed)
}

/// Replaces a tunnel's file by a text that differs in nothing but what a running tunnel may change: for who may
/// not replace it himself.
///
/// # Errors
/// When the text means something else, or the file cannot be replaced.
pub(crate) fn replace_settings(file: &FilePath, text: &str) -> io::Result<()> {
    let files = &Files::Own;
    let wrong = |mistake: Mistake| io::Error::new(io::ErrorKind::InvalidData, mistake);
    let old = parse::file(file, files).map_err(wrong)?.0;
    let new = parse::parse(Source { file, text, files }).map_err(wrong)?.0;
    if old.with(&new.running()) != new {
        let what = "more was changed than what runs";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    replace(file, text)
}

impl Config {
    /// The settings that this configuration starts with.
    pub(crate) fn running(&self) -> Running {
        let weight = |path: &super::Path| (path.name.clone(), path.weight);
        Running {
            scheduler: self.tunnel.scheduler,
            reorder: self.reorder,
            weights: self.paths.iter().map(weight).collect(),
        }
    }

    /// This configuration with the settings that run: what a reload compares the file with, so
    /// that afterwards the file's values hold.
    pub(crate) fn with(mut self, running: &Running) -> Config {
        self.tunnel.scheduler = running.scheduler;
        self.reorder = running.reorder;
        for path in &mut self.paths {
            if let Some(weight) = running.weight(&path.name) {
                path.weight = weight;
            }
        }
        self
    }
}

impl Running {
    fn weight(&self, name: &str) -> Option<u32> {
        let found = self.weights.iter().find(|(path, _)| path == name);
        found.map(|(_, weight)| *weight)
    }

    /// The same settings, paths in the order of the file and those that do not run as it says; the
    /// scheduler is the file's.
    fn in_order_of(&self, config: &Config) -> Running {
        Running {
            scheduler: config.tunnel.scheduler,
            ..config.clone().with(self).running()
        }
    }
}

/// The text with the settings that differ replaced, and what those are.
fn edit(
    file: &FilePath,
    text: &str,
    old: &Config,
    running: &Running,
) -> Result<(String, Vec<String>), SaveError> {
    let form = || SaveError::Form {
        file: file.to_owned(),
    };
    let mut document: DocumentMut = text.parse().map_err(|_| form())?;
    let mut changed = Vec::new();

    let settings = reorder_settings(old.reorder, running.reorder);
    if !settings.is_empty() {
        let section = reorder_section(&mut document).ok_or_else(form)?;
        for (key, value) in settings {
            changed.push(format!("{key} = {value}"));
            set(section, key, value);
        }
    }
    for (name, weight) in &running.weights {
        let path = old.paths.iter().find(|path| path.name == *name);
        let path = path.ok_or_else(|| SaveError::NoPath {
            name: name.clone(),
            file: file.to_owned(),
        })?;
        if path.weight != *weight {
            let section = path_section(&mut document, name).ok_or_else(form)?;
            set(section, "weight", i64::from(*weight).into());
            changed.push(format!("{name} weight = {weight}"));
        }
    }
    Ok((ending_as(text, &document), changed))
}

/// The document as text, its lines ending as those of `text` do.
fn ending_as(text: &str, document: &DocumentMut) -> String {
    let edited = document.to_string();
    if text.contains('\n') && text.matches('\n').count() == text.matches("\r\n").count() {
        return edited.replace('\n', "\r\n");
    }
    edited
}

/// Whether a file says which scheduler it wants.
fn names_scheduler(text: &str) -> bool {
    let document = text.parse::<DocumentMut>().ok();
    document.is_some_and(|document| {
        let tunnel = document.get("tunnel").and_then(Item::as_table_like);
        tunnel.is_some_and(|tunnel| tunnel.contains_key("scheduler"))
    })
}

/// The text with a scheduler in `[tunnel]`; none when it is written in a way that cannot be edited.
fn with_scheduler(text: &str, scheduler: Policy) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let tunnel = document.get_mut("tunnel")?.as_table_like_mut()?;
    set(tunnel, "scheduler", scheduler.name().into());
    Some(ending_as(text, &document))
}

/// `[reorder]`; made after `[tunnel]` where it is absent, because what stands last in the file may
/// be a comment that belongs to the last path.
fn reorder_section(document: &mut DocumentMut) -> Option<&mut dyn TableLike> {
    if !document.contains_key("reorder") {
        let tunnel = document.get("tunnel").and_then(Item::as_table);
        let position = tunnel.and_then(Table::position);
        let mut section = Table::new();
        section.set_position(position);
        if let Some(comments) = position.and_then(|tunnel| comments::take_after(document, tunnel)) {
            section.decor_mut().set_prefix(format!("{comments}\n"));
        }
        document.insert("reorder", Item::Table(section));
    }
    document.get_mut("reorder")?.as_table_like_mut()
}

/// The keys of `[reorder]` whose values differ.
fn reorder_settings(old: ReorderSettings, new: ReorderSettings) -> Vec<(&'static str, Value)> {
    let mut settings = Vec::new();
    if old.window != new.window {
        settings.push(("window", value_of(new.window.map(i64::from))));
    }
    if old.max_buffer_delay != new.max_buffer_delay {
        let delay = new.max_buffer_delay.map(in_one_unit);
        settings.push(("max_buffer_delay", value_of(delay)));
    }
    if old.late != new.late {
        settings.push(("late", new.late.name().into()));
    }
    if let Some(block) = new.block.filter(|_| old.block != new.block) {
        settings.push(("block_size", i64::from(block).into()));
    }
    settings
}

fn value_of<T: Into<Value>>(setting: Setting<T>) -> Value {
    match setting {
        Setting::Auto => "auto".into(),
        Setting::Fixed(value) => value.into(),
    }
}

/// The element of `paths` with a name, written as `[[paths]]` or as an inline table.
fn path_section<'a>(document: &'a mut DocumentMut, name: &str) -> Option<&'a mut dyn TableLike> {
    let is_it = |path: &dyn TableLike| path.get("name").and_then(Item::as_str) == Some(name);
    let paths = document.get_mut("paths")?;
    if paths.is_array_of_tables() {
        let found = paths
            .as_array_of_tables_mut()?
            .iter_mut()
            .find(|path| is_it(*path));
        return found.map(|path| path as &mut dyn TableLike);
    }
    let inline = paths
        .as_array_mut()?
        .iter_mut()
        .filter_map(Value::as_inline_table_mut);
    let found = inline.into_iter().find(|path| is_it(*path));
    found.map(|path| path as &mut dyn TableLike)
}

/// Sets a key; a value that was there leaves its spaces and its comment to the new one.
fn set(section: &mut dyn TableLike, key: &str, mut value: Value) {
    match section.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            // The blank before an inline table's closing brace belongs to its last value.
            let last = section
                .iter_mut()
                .last()
                .and_then(|(_, item)| item.as_value_mut().map(Value::decor_mut));
            if let Some(last) = last
                && let Some(blank) = last.suffix().and_then(RawString::as_str).map(str::to_owned)
                && blank.trim().is_empty()
            {
                last.set_suffix("");
                value.decor_mut().set_prefix(" ");
                value.decor_mut().set_suffix(blank);
            }
            section.insert(key, Item::Value(value));
        }
    }
}

#[cfg(test)]
mod tests;
