//! Values of a wrong type, or out of range.

use super::{complaint, edited};

#[test]
fn text_for_a_number() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "weight = \"50\"")])), @r#"
    mpt0.toml:18:10: `weight` must be an integer, not text
      help: write a whole number from 1 to 1,000,000, without quotes
    "#);
}

#[test]
fn a_number_for_text() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "0")])), @r#"
    mpt0.toml:2:8: `name` must be text in double quotes, not an integer
      help: write name = "mpt0"
    "#);
}

#[test]
fn an_element_of_the_wrong_type() {
    insta::assert_snapshot!(complaint(&edited(&[("[\"10.99.0.1/30\"]", "[\"10.99.0.1/30\", 7]")])), @r#"
    mpt0.toml:3:30: each of `addresses` must be text in double quotes, not an integer
      help: write "10.99.0.1/30"
    "#);
}

#[test]
fn text_for_a_list() {
    insta::assert_snapshot!(complaint(&edited(&[("[\"10.99.0.1/30\"]", "\"10.99.0.1/30\"")])), @r#"
    mpt0.toml:3:13: `addresses` must be a list, not text
      help: write addresses = ["10.99.0.1/30"]
    "#);
}

#[test]
fn a_value_for_a_section() {
    insta::assert_snapshot!(complaint("reorder = 7\n[tunnel]\nname = \"mpt0\"\n"), @r#"
    mpt0.toml:1:11: `reorder` must be a section, not an integer
      help: write [reorder] on a line, its keys below
    "#);
}

#[test]
fn a_fraction() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "weight = 0.5")])), @r#"
    mpt0.toml:18:10: `weight` must be an integer, not a number with a fraction
      help: write a whole number from 1 to 1,000,000, without quotes
    "#);
}

#[test]
fn a_window_too_large() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = 65536")])), @r#"
    mpt0.toml:6:10: `window` is 65536: out of range
      help: write a whole number from 0 to 32,768 packets, without quotes; or "auto"
    "#);
}

#[test]
fn a_negative_window() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = -1")])), @r#"
    mpt0.toml:6:10: `window` is -1: out of range
      help: write a whole number from 0 to 32,768 packets, without quotes; or "auto"
    "#);
}

#[test]
fn a_delay_without_a_unit() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "max_buffer_delay = 300")])), @r#"
    mpt0.toml:6:20: `max_buffer_delay` must be a time in double quotes, not an integer
      help: write a time with its unit, like max_buffer_delay = "200ms" or "1s", from 1ms to 10s; or "auto"
    "#);
}

#[test]
fn a_delay_with_an_unknown_unit() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "max_buffer_delay = \"300 ticks\"")])), @r#"
    mpt0.toml:6:20: `max_buffer_delay` is "300 ticks": unknown time unit "ticks", supported units: ns, us/µs, ms, sec, min, hours, days, weeks, months, years (and few variations)
      help: write a time with its unit, like max_buffer_delay = "200ms" or "1s", from 1ms to 10s; or "auto"
    "#);
}

#[test]
fn a_delay_too_long() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "max_buffer_delay = \"1m\"")])), @r#"
    mpt0.toml:6:20: `max_buffer_delay` is "1m": out of range
      help: write a time with its unit, like max_buffer_delay = "200ms" or "1s", from 1ms to 10s; or "auto"
    "#);
}

#[test]
fn a_late_policy() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "late = \"ignore\"")])), @r#"
    mpt0.toml:6:8: `late` is "ignore"
      help: write "deliver" (hand late packets on) or "drop" (RFC 2890's way)
    "#);
}

#[test]
fn a_port_out_of_range() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"", "name = \"mpt0\"\nport = 70000")])), @r#"
    mpt0.toml:3:8: `port` is 70000: out of range
      help: write a whole number from 1 to 65,535, without quotes
    "#);
}

#[test]
fn a_key_out_of_range() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"", "name = \"mpt0\"\nkey = 0x1_0000_0000")])), @r#"
    mpt0.toml:3:7: `key` is 0x100000000: out of range
      help: write a whole number from 0 to 4,294,967,295, without quotes
    "#);
}

#[test]
fn an_mtu_out_of_range() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"", "name = \"mpt0\"\nmtu = 100")])), @r#"
    mpt0.toml:3:7: `mtu` is 100: out of range
      help: write a whole number from 576 to 65,000 bytes, without quotes
    "#);
}

#[test]
fn an_mtu_too_small_for_ipv6_inside() {
    insta::assert_snapshot!(complaint(&edited(&[("[\"10.99.0.1/30\"]", "[\"fd00::1/64\"]\nmtu = 1200")])), @r#"
    mpt0.toml:4:7: mtu = 1200 is too small for IPv6 inside
      help: write at least 1280 (RFC 8200), or remove the IPv6 prefixes
    "#);
}

#[test]
fn a_dead_after_too_short() {
    insta::assert_snapshot!(complaint(&edited(&[("remote = \"10.1.0.2\"", "remote = \"10.1.0.2\"\nkeepalive = \"1s\"\ndead_after = \"1500ms\"")])), @r#"
    mpt0.toml:13:14: dead_after = 1500ms is too short for keepalive = 1s
      help: one lost probe would take the path down: write dead_after = "2s" or more, or a shorter keepalive
    "#);
}

#[test]
fn a_keepalive_too_long_for_the_default() {
    insta::assert_snapshot!(complaint(&edited(&[("remote = \"10.1.0.2\"", "remote = \"10.1.0.2\"\nkeepalive = \"1s\"")])), @r#"
    mpt0.toml:12:13: dead_after = 1s is too short for keepalive = 1s
      help: one lost probe would take the path down: write dead_after = "2s" or more, or a shorter keepalive
    "#);
}

// Weights

#[test]
fn weight_0_everywhere() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 100", "weight = 0"), ("weight = 50", "weight = 0")])), @r#"
    mpt0.toml:12:10: every path has weight 0: the tunnel could carry nothing
      help: give each path its relative share of bytes, 1 to 1,000,000
    "#);
}

#[test]
fn weight_0_on_one_path() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "weight = 0")])), @r#"
    mpt0.toml:18:10: path "lte" has weight 0: it would carry nothing
      help: give it a weight from 1 to 1,000,000; to take a path out of service, run `mpt-ctl path down lte`
    "#);
}

#[test]
fn a_weight_out_of_range() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "weight = 1000001")])), @r#"
    mpt0.toml:18:10: `weight` is 1000001: out of range
      help: write a whole number from 1 to 1,000,000, without quotes
    "#);
}
