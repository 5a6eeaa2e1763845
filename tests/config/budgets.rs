//! Mistakes in what paths cost and may carry, and what is right there.

use super::{check, edited, folder};

fn said(text: &str) -> String {
    let folder = folder(&[("mpt0.toml", text)]);
    let (_, _, complaint) = check(folder.path(), &["--config", "mpt0.toml"]);
    complaint.trim_end().to_owned()
}

/// What is said to these lines in a path's section.
fn path(lines: &str) -> String {
    said(&edited(&[("weight = 50", lines)]))
}

#[test]
fn amounts_and_months_are_read() {
    for budget in [
        "50 GB / month",
        "50GB/month",
        "1.5 TB /month",
        "500 MiB / month",
        "1024 KiB/ month",
        "2000 kB / month",
        "1 TiB / month",
        "3 GiB / month",
        "20 MB / month",
    ] {
        assert_eq!(path(&format!("budget = \"{budget}\"")), "", "{budget}");
    }
    let all = "cost = 5\nbudget = \"50 GB / month\"\nreset_day = 31\nat_budget";
    for at_budget in ["last resort", "off"] {
        assert_eq!(path(&format!("{all} = \"{at_budget}\"")), "");
    }
    assert_eq!(path("cost = 1000\nmetered = false"), "");
}

#[test]
fn a_budget_that_is_none_is_told_what_to_write() {
    insta::assert_snapshot!(path("budget = \"50 GB\""), @r#"
    mpt0.toml:18:10: `budget` is "50 GB", and not said for how long
      help: write how much, and a month, like "50 GB / month"
    "#);
    insta::assert_snapshot!(path("budget = \"50 GB / week\""), @r#"
    mpt0.toml:18:10: `budget` is "50 GB / week": it is for something else than a month
      help: write what the path may carry in a month, like "50 GB / month"; `reset_day` says when that begins
    "#);
    insta::assert_snapshot!(path("budget = \"50 Gb / month\""), @r#"
    mpt0.toml:18:10: `budget` is "50 Gb / month"
      help: write an amount with its unit, like "50 GB / month", in kB, MB, GB, TB (thousands) or KiB, MiB, GiB, TiB (of 1024), from 1 MB to 9000 TB
    "#);
    insta::assert_snapshot!(path("budget = 50"), @r#"
    mpt0.toml:18:10: `budget` must be text in double quotes, not an integer
      help: write budget = "50 GB / month"
    "#);
    insta::assert_snapshot!(path("budget = \"5 kB / month\""), @r#"
    mpt0.toml:18:10: `budget` is "5 kB / month"
      help: write an amount with its unit, like "50 GB / month", in kB, MB, GB, TB (thousands) or KiB, MiB, GiB, TiB (of 1024), from 1 MB to 9000 TB
    "#);
    insta::assert_snapshot!(path("reset_day = 5"), @r#"
    mpt0.toml:18:13: `reset_day` means nothing without `budget`
      help: remove it, or write what the path may carry, like budget = "50 GB / month"
    "#);
    insta::assert_snapshot!(path("budget = \"5 GB / month\"\nreset_day = 32"), @r#"
    mpt0.toml:19:13: `reset_day` is 32: out of range
      help: write a whole number from 1 to 31, without quotes
    "#);
    insta::assert_snapshot!(path("budget = \"5 GB / month\"\nat_budget = \"stop\""), @r#"
    mpt0.toml:19:13: `at_budget` is "stop"
      help: write "last resort" (when the budget is used up, the path carries packets when no other is there) or "off" (it carries none)
    "#);
    insta::assert_snapshot!(path("cost = 1001"), @r#"
    mpt0.toml:18:8: `cost` is 1001: out of range
      help: write a whole number from 0 to 1,000, without quotes
    "#);
}

#[test]
fn what_the_document_shows_is_right() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/budgets.md");
    let document = std::fs::read_to_string(document).unwrap();
    let blocks = document.split("```toml\n").skip(1);
    let mut blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let whole = blocks.next().unwrap();
    assert_eq!(said(whole), "");
}
