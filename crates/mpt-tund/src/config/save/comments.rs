//! Whose a comment is: that of the section above it, or of the header below.

use toml_edit::{DocumentMut, Item, Table};

/// Takes away the comments that belong to the section at that position and not to the header after it: all before
/// the last blank line. To the parser they are the next header's, or the end of the document's.
pub(super) fn take_after(document: &mut DocumentMut, section: isize) -> Option<String> {
    let is_after = |table: &&mut Table| table.position().is_some_and(|at| at > section);
    let tables = document.iter_mut().flat_map(|(_, item)| {
        let tables: Vec<&mut Table> = match item {
            Item::Table(table) => vec![table],
            Item::ArrayOfTables(tables) => tables.iter_mut().collect(),
            Item::None | Item::Value(_) => Vec::new(),
        };
        tables
    });
    let next = tables.filter(is_after).min_by_key(|table| table.position());
    let Some(next) = next else {
        let comments = document.trailing().as_str()?.to_owned();
        let (own, rest) = comments.split_at(own_comments(&comments).unwrap_or(comments.len()));
        document.set_trailing(rest);
        return Some(own.to_owned()).filter(|own| !own.trim().is_empty());
    };
    let comments = next.decor().prefix()?.as_str()?.to_owned();
    let (own, rest) = comments.split_at(own_comments(&comments)?);
    next.decor_mut().set_prefix(rest);
    Some(own.to_owned())
}

/// Where the last blank line stands before which there is a comment.
fn own_comments(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut last = None;
    for line in text.split_inclusive('\n') {
        if line.trim().is_empty() && text[..at].contains('#') {
            last = Some(at);
        }
        at += line.len();
    }
    last
}
