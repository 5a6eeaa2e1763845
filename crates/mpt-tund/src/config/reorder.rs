//! Section `[reorder]`: how the receiving side puts packets in order.
//!
//! There are two ways, and each has settings that mean nothing to the other: a window that holds
//! packets, and blocks of what arrives together, which hold nothing. A setting of the way that was not
//! chosen is a mistake, not ignored: whoever writes it expects something of it.

use mpt_core::control::LatePolicy;
use mpt_core::control::setting::Setting;
use mpt_core::limits::{HOLDS, MAX_WINDOW};
use mpt_core::receive::block_sort::{BLOCKS, DEFAULT_BLOCK};
use mpt_core::tunnel::ReorderSettings;

use super::document::Mistake;
use super::section::Section;

/// Reads the section.
pub(super) fn reorder(section: &Section<'_>) -> Result<ReorderSettings, Mistake> {
    let Some(entry) = section.get("mode") else {
        return window(section);
    };
    match entry.text("window")? {
        "window" => window(section),
        "block" => block(section),
        other => Err(entry.mistake(
            format!("`mode` is \"{other}\""),
            "write \"window\" (hold packets until those before them are there) or \"block\" (sort what \
             arrives together, and hold nothing)",
        )),
    }
}

fn window(section: &Section<'_>) -> Result<ReorderSettings, Mistake> {
    if let Some(entry) = section.get("block_size") {
        return Err(entry.mistake(
            "`block_size` does not go with mode = \"window\", the default",
            "remove `block_size`, or write mode = \"block\"",
        ));
    }
    let mut reorder = ReorderSettings::default();
    let fixed = |key| section.get(key).filter(|entry| !entry.is_auto());
    let or_auto = |mistake: Mistake| Mistake {
        remedy: format!("{}; or \"auto\"", mistake.remedy),
        ..mistake
    };
    if fixed("window").is_some() {
        let window = section.number("window", 0..=u64::from(MAX_WINDOW), "packets");
        let window = window.map_err(or_auto)?;
        reorder.window = window.map_or(Setting::Auto, Setting::Fixed);
    }
    if let Some(entry) = fixed("max_buffer_delay") {
        let delay = entry.duration(HOLDS).map_err(or_auto)?;
        reorder.max_buffer_delay = delay.into();
    }
    if let Some(entry) = section.get("late") {
        let late = entry.text("deliver")?;
        reorder.late = LatePolicy::named(late).ok_or_else(|| {
            entry.mistake(
                format!("`late` is \"{late}\""),
                "write \"deliver\" (hand late packets on) or \"drop\" (RFC 2890's way)",
            )
        })?;
    }
    Ok(reorder)
}

fn block(section: &Section<'_>) -> Result<ReorderSettings, Mistake> {
    for key in ["window", "max_buffer_delay", "late"] {
        if let Some(entry) = section.get(key) {
            return Err(entry.mistake(
                format!("`{key}` does not go with mode = \"block\", which holds nothing"),
                format!("remove `{key}`, or write mode = \"window\""),
            ));
        }
    }
    let range = u64::from(*BLOCKS.start())..=u64::from(*BLOCKS.end());
    let block = section.number("block_size", range, "packets")?;
    Ok(ReorderSettings {
        block: Some(block.unwrap_or(DEFAULT_BLOCK)),
        ..ReorderSettings::default()
    })
}
