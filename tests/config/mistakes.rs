//! Each kind of mistake within one file.

use super::{complaint, edited};

// Syntax

#[test]
fn text_without_quotes() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "mpt0")])), @r#"
    mpt0.toml:2:8: this is not TOML: string values must be quoted, expected literal string
      help: a section is [name] on a line, a setting is key = value, text and addresses stand in double quotes, each key once
    "#);
}

#[test]
fn a_key_given_twice() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "weight = 50\nweight = 60")])), @r#"
    mpt0.toml:19:1: this key or section stands in the file twice
      help: remove one of them; only [[paths]] may be repeated
    "#);
}

#[test]
fn a_section_given_twice() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = 1024\n[tunnel]")])), @r#"
    mpt0.toml:7:2: this key or section stands in the file twice
      help: remove one of them; only [[paths]] may be repeated
    "#);
}

// Keys and sections

#[test]
fn an_unknown_key() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "wieght = 50")])), @r#"
    mpt0.toml:18:1: unknown key `wieght` in [[paths]]
      help: did you mean `weight`?
    "#);
}

#[test]
fn an_unknown_key_like_no_other() {
    insta::assert_snapshot!(complaint(&edited(&[("weight = 50", "colour = 50")])), @r#"
    mpt0.toml:18:1: unknown key `colour` in [[paths]]
      help: the keys here are name, local, remote, interface, weight, keepalive, dead_after, metered
    "#);
}

#[test]
fn a_key_in_the_wrong_section() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = 1024\nweight = 5")])), @r#"
    mpt0.toml:7:1: unknown key `weight` in [reorder]
      help: `weight` belongs in [[paths]]
    "#);
}

#[test]
fn an_unknown_section() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[reordering]")])), @r#"
    mpt0.toml:5:2: unknown section or key `reordering`
      help: did you mean `reorder`?
    "#);
}

#[test]
fn a_section_like_no_other() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[firewall]")])), @r#"
    mpt0.toml:5:2: unknown section or key `firewall`
      help: the sections here are tunnel, reorder, recovery, crypto, control, paths
    "#);
}

#[test]
fn one_path_without_double_brackets() {
    insta::assert_snapshot!(complaint(&edited(&[("[[paths]]\nname = \"fibre\"", "[paths]\nname = \"fibre\""), ("[[paths]]\nname = \"lte\"\nlocal = \"10.2.0.1\"\nremote = \"10.2.0.2\"\nweight = 50\n", "")])), @r#"
    mpt0.toml:8:1: [paths] is a single section, and paths are a list
      help: write [[paths]], once for each path
    "#);
}

#[test]
fn a_reorder_mode_that_is_none() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[reorder]\nmode = \"sort\"")])), @r#"
    mpt0.toml:6:8: `mode` is "sort"
      help: write "window" (hold packets until those before them are there) or "block" (sort what arrives together, and hold nothing)
    "#);
}

#[test]
fn settings_of_the_window_with_block_sort() {
    for (line, key) in [
        ("window = 1024", "window"),
        ("window = \"auto\"", "window"),
        ("max_buffer_delay = \"50ms\"", "max_buffer_delay"),
        ("late = \"drop\"", "late"),
    ] {
        let lines = format!("mode = \"block\"\n{line}");
        let complaint = complaint(&edited(&[("window = 1024", &lines)]));
        let what = format!("`{key}` does not go with mode = \"block\", which holds nothing");
        assert!(complaint.contains(&what), "{complaint}");
        let remedy = format!("remove `{key}`, or write mode = \"window\"");
        assert!(complaint.contains(&remedy), "{complaint}");
    }
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[reorder]\nmode = \"block\"")])), @r#"
    mpt0.toml:7:10: `window` does not go with mode = "block", which holds nothing
      help: remove `window`, or write mode = "window"
    "#);
}

#[test]
fn the_size_of_blocks_where_none_are_sorted() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = 1024\nblock_size = 32")])), @r#"
    mpt0.toml:7:14: `block_size` does not go with mode = "window", the default
      help: remove `block_size`, or write mode = "block"
    "#);
}

#[test]
fn a_block_that_is_too_small_or_too_large() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "mode = \"block\"\nblock_size = 1")])), @r"
    mpt0.toml:7:14: `block_size` is 1: out of range
      help: write a whole number from 2 to 1,024 packets, without quotes
    ");
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "mode = \"block\"\nblock_size = 1025")])), @r"
    mpt0.toml:7:14: `block_size` is 1025: out of range
      help: write a whole number from 2 to 1,024 packets, without quotes
    ");
}

#[test]
fn a_recovery_mode_that_is_none() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[recovery]\nmode = \"on\"\n[reorder]")])), @r#"
    mpt0.toml:6:8: `mode` is "on"
      help: write "auto" (lost packets are sent again toward peers that can tell of them) or "off"
    "#);
}

#[test]
fn an_offload_that_is_none_of_the_three() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"", "name = \"mpt0\"\noffload = \"yes\"")])), @r#"
    mpt0.toml:3:11: `offload` is "yes"
      help: write "auto" (super-packets where the kernel has them), "on" (or not at all) or "off" (one packet at a time)
    "#);
}

#[test]
fn a_window_that_is_another_word() {
    insta::assert_snapshot!(complaint(&edited(&[("window = 1024", "window = \"huge\"")])), @r#"
    mpt0.toml:6:10: `window` must be an integer, not text
      help: write a whole number from 0 to 32,768 packets, without quotes; or "auto"
    "#);
}

#[test]
fn an_unknown_scheduler() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"", "name = \"mpt0\"\nscheduler = \"fair\"")])), @r#"
    mpt0.toml:3:13: there is no scheduler "fair"
      help: write "weighted" (bytes by the paths' weights), "redundant" (every packet on every path), "backup" (all on the path with the greatest weight that is up), "flow" (each flow on one path) or "adaptive" (by what each path turns out to deliver)
    "#);
}

// What must be there

#[test]
fn an_empty_file() {
    insta::assert_snapshot!(complaint(""), @r#"
    mpt0.toml:1:1: there is no [tunnel] section
      help: add [tunnel] with name = "mpt0"
    "#);
}

#[test]
fn no_name() {
    insta::assert_snapshot!(complaint(&edited(&[("name = \"mpt0\"\n", "")])), @r#"
    mpt0.toml:1:1: [tunnel] has no `name`
      help: add name = "mpt0", the TUN interface to make
    "#);
}

#[test]
fn no_paths() {
    insta::assert_snapshot!(complaint("[tunnel]\nname = \"mpt0\"\n"), @r#"
    mpt0.toml:1:1: the tunnel has no paths
      help: add a [[paths]] section with name, local and remote for each uplink
    "#);
}

#[test]
fn an_empty_list_of_paths() {
    insta::assert_snapshot!(complaint("paths = []\n[tunnel]\nname = \"mpt0\"\n"), @r#"
    mpt0.toml:1:9: the tunnel has no paths
      help: add a [[paths]] section with name, local and remote for each uplink
    "#);
}

#[test]
fn a_path_without_a_remote() {
    insta::assert_snapshot!(complaint(&edited(&[("remote = \"10.1.0.2\"\n", "")])), @r#"
    mpt0.toml:8:1: [[paths]] has no `remote`
      help: add the peer's address on the path, like remote = "10.1.0.2"
    "#);
}

// Types and ranges

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

// Names

#[test]
fn a_name_too_long() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "\"multipath-tunnel\"")])), @r#"
    mpt0.toml:2:8: the name "multipath-tunnel" is too long: 16 bytes
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "mpt0"
    "#);
}

#[test]
fn a_name_with_bad_characters() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "\"mpt/0\"")])), @r#"
    mpt0.toml:2:8: the name "mpt/0" contains '/'
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "mpt0"
    "#);
}

#[test]
fn an_empty_name() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "\"\"")])), @r#"
    mpt0.toml:2:8: the name is empty
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "mpt0"
    "#);
}

#[test]
fn a_name_like_an_option() {
    insta::assert_snapshot!(complaint(&edited(&[("\"mpt0\"", "\"-mpt\"")])), @r#"
    mpt0.toml:2:8: the name "-mpt" starts with neither a letter nor a digit
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "mpt0"
    "#);
}

#[test]
fn an_interface_too_long() {
    insta::assert_snapshot!(complaint(&edited(&[("remote = \"10.1.0.2\"", "remote = \"10.1.0.2\"\ninterface = \"wwan0123456789abc\"")])), @r#"
    mpt0.toml:12:13: the name "wwan0123456789abc" is too long: 17 bytes
      help: use 1 to 15 letters, digits, '-', '_' or '.', a letter or digit first, like "eth0"
    "#);
}

#[test]
fn two_paths_with_one_name() {
    insta::assert_snapshot!(complaint(&edited(&[("\"lte\"", "\"fibre\"")])), @r#"
    mpt0.toml:15:8: two paths are called "fibre"
      help: give each path a name of its own
    "#);
}

#[test]
fn a_relative_socket() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[control]\nsocket = \"mpt0.sock\"\n[reorder]")])), @r#"
    mpt0.toml:6:10: "mpt0.sock" is not the path of a socket
      help: write an absolute path of at most 107 bytes, like "/run/mpt/mpt0.sock"
    "#);
}

// Addresses and prefixes

#[test]
fn a_bad_address() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.2\"", "\"10.1.0.256\"")])), @r#"
    mpt0.toml:11:10: "10.1.0.256" is not an IP address
      help: write the peer's address, with a port if it is not 4754: "10.1.0.2", "10.1.0.2:4755", "2001:db8::1" or "[2001:db8::1]:4755"; or its name, like "office.example.net"
    "#);
}

#[test]
fn a_host_name_for_an_address_of_ours() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.1\"", "\"office.example.net\"")])), @r#"
    mpt0.toml:10:9: "office.example.net" is not an IP address
      help: write this host's address, with a port if it is not 4754: "10.1.0.1", "10.1.0.1:4755", "2001:db8::1" or "[2001:db8::1]:4755"
    "#);
}

#[test]
fn a_host_name_with_a_port_that_cannot_be() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.2\"", "\"office.example.net:0\"")])), @r#"
    mpt0.toml:11:10: "office.example.net:0" has no port that can be
      help: write a port from 1 to 65,535 behind the colon, or only "office.example.net"
    "#);
}

#[test]
fn an_owner_that_is_none() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[control]\nowner = \"a b\"\n[reorder]")])), @r#"
    mpt0.toml:6:9: "a b" names no owner
      help: write USER, USER:GROUP or :GROUP, names or numbers, like "root:mpt"
    "#);
}

#[test]
fn a_mode_that_locks_its_owner_out() {
    insta::assert_snapshot!(complaint(&edited(&[("[reorder]", "[control]\nmode = \"0060\"\n[reorder]")])), @r#"
    mpt0.toml:6:8: "0060" is no mode of a socket
      help: write an octal mode as chmod takes it: "0600" for the owner alone, "0660" for the group too
    "#);
}

#[test]
fn a_switch_that_is_text() {
    insta::assert_snapshot!(complaint(&edited(&[("[tunnel]", "[tunnel]\nclamp_mss = \"yes\"")])), @r#"
    mpt0.toml:2:13: `clamp_mss` must be true or false, not text
      help: write clamp_mss = true or clamp_mss = false
    "#);
}

#[test]
fn a_port_of_zero() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.2\"", "\"10.1.0.2:0\"")])), @r#"
    mpt0.toml:11:10: "10.1.0.2:0" has port 0
      help: write a port from 1 to 65,535, or leave it out
    "#);
}

#[test]
fn a_multicast_remote() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.2\"", "\"224.0.0.1\"")])), @r#"
    mpt0.toml:11:10: "224.0.0.1" is not the address of one host
      help: write the peer's own address on this path, like "10.1.0.2"
    "#);
}

#[test]
fn an_unspecified_remote() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.2\"", "\"0.0.0.0\"")])), @r#"
    mpt0.toml:11:10: "0.0.0.0" stands for any address
      help: write the peer's own address on this path, like "10.1.0.2"
    "#);
}

#[test]
fn an_unspecified_local_without_interface() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.1\"", "\"0.0.0.0\"")])), @r#"
    mpt0.toml:10:9: 0.0.0.0 says nothing without a device
      help: add interface = "eth0", the device of this path, or write a full address
    "#);
}

#[test]
fn a_link_local_remote_without_interface() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.1\"", "\"2001:db8::1\""), ("\"10.1.0.2\"", "\"fe80::2\"")])), @r#"
    mpt0.toml:11:10: fe80::2 says nothing without a device
      help: add interface = "eth0", the device of this path, or write a full address
    "#);
}

#[test]
fn an_ipv4_mapped_address() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.1\"", "\"::ffff:10.1.0.1\"")])), @r#"
    mpt0.toml:10:9: "::ffff:10.1.0.1" is an IPv4 address written as IPv6
      help: write this host's own address on this path, like "10.1.0.1"
    "#);
}

#[test]
fn mixed_families_in_one_path() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.2\"", "\"2001:db8::2\"")])), @r#"
    mpt0.toml:11:10: path "fibre" mixes IPv4 and IPv6: 10.1.0.1 and 2001:db8::2
      help: give both ends an address of one family; another path may have the other
    "#);
}

#[test]
fn a_path_to_itself() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.2\"", "\"10.1.0.1\"")])), @r#"
    mpt0.toml:11:10: path "fibre" leads to itself
      help: write the peer's address
    "#);
}

#[test]
fn no_prefix() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.99.0.1/30\"", "\"ten\"")])), @r#"
    mpt0.toml:3:14: "ten" is not an IP prefix
      help: write ADDRESS/LENGTH, like "10.99.0.1/30" or "2001:db8::1/64"
    "#);
}

#[test]
fn no_prefix_length() {
    insta::assert_snapshot!(complaint(&edited(&[("10.99.0.1/30", "10.99.0.1")])), @r#"
    mpt0.toml:3:14: "10.99.0.1" has no prefix length
      help: write "10.99.0.1/32" for this address alone, or the length of its network
    "#);
}

#[test]
fn a_prefix_out_of_range() {
    insta::assert_snapshot!(complaint(&edited(&[("10.99.0.1/30", "10.99.0.1/33")])), @r#"
    mpt0.toml:3:14: the prefix length of "10.99.0.1/33" is out of range
      help: an IPv4 prefix has a length from 0 to 32
    "#);
}

#[test]
fn a_network_address_of_all_zeros() {
    insta::assert_snapshot!(complaint(&edited(&[("10.99.0.1/30", "0.0.0.0/0")])), @r#"
    mpt0.toml:3:14: "0.0.0.0/0" cannot be the address of an interface
      help: write an address of this host inside the tunnel, like "10.99.0.1/30"
    "#);
}

#[test]
fn host_bits_in_a_route() {
    insta::assert_snapshot!(complaint(&edited(&[("addresses", "routes = [\"192.168.7.9/24\"]\naddresses")])), @r#"
    mpt0.toml:3:11: the route "192.168.7.9/24" has bits set behind its prefix length
      help: write "192.168.7.0/24"
    "#);
}

#[test]
fn host_bits_in_an_ipv6_route() {
    insta::assert_snapshot!(complaint(&edited(&[("addresses", "routes = [\"2001:db8::1/32\"]\naddresses")])), @r#"
    mpt0.toml:3:11: the route "2001:db8::1/32" has bits set behind its prefix length
      help: write "2001:db8::/32"
    "#);
}

#[test]
fn an_address_given_twice() {
    insta::assert_snapshot!(complaint(&edited(&[("[\"10.99.0.1/30\"]", "[\"10.99.0.1/30\", \"10.99.0.1/30\"]")])), @r#"
    mpt0.toml:3:30: "10.99.0.1/30" stands here twice
      help: remove one of them
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

// Sockets

#[test]
fn a_path_with_neither_local_nor_interface() {
    insta::assert_snapshot!(complaint(&edited(&[("local = \"10.1.0.1\"\n", "")])), @r#"
    mpt0.toml:8:1: [[paths]] has no `local`
      help: add this host's address on the path, like local = "10.1.0.1", or the device that it leaves by, like interface = "wwan0", whose address is followed then
    "#);
}

#[test]
fn two_paths_that_follow_one_interface() {
    let interface = "interface = \"wwan0\"";
    insta::assert_snapshot!(complaint(&edited(&[("local = \"10.1.0.1\"", interface), ("local = \"10.2.0.1\"", interface)])), @r#"
    mpt0.toml:16:13: paths "fibre" (line 10) and "lte" have one local socket, port 4754 of wwan0
      help: give one of them another port, like local = "0.0.0.0:4755", and its peer the same in `remote`
    "#);
}

#[test]
fn two_paths_with_one_local_socket() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.2.0.1\"", "\"10.1.0.1\"")])), @r#"
    mpt0.toml:16:9: paths "fibre" (line 10) and "lte" have one local socket, 10.1.0.1:4754
      help: give one of them another port, like local = "10.1.0.1:4755", and its peer the same in `remote`
    "#);
}

#[test]
fn two_paths_to_one_socket_of_the_peer() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.2.0.2\"", "\"10.1.0.2\"")])), @r#"
    mpt0.toml:17:10: paths "fibre" (line 10) and "lte" lead to one socket of the peer, 10.1.0.2:4754
      help: the peer could not tell them apart: give it a path for each, on ports of their own, and write the one of this path here
    "#);
}

#[test]
fn two_paths_with_one_local_socket_that_is_not_the_default() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.1\"", "\"10.1.0.1:9000\""), ("\"10.2.0.1\"", "\"10.1.0.1:9000\"")])), @r#"
    mpt0.toml:16:9: paths "fibre" (line 10) and "lte" have one local socket, 10.1.0.1:9000
      help: give one of them another port, like local = "10.1.0.1:4754", and its peer the same in `remote`
    "#);
}
