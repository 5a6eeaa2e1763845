//! Addresses, prefixes and sockets that cannot be.

use super::{check, complaint, edited, folder};

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
fn a_path_through_the_tunnel_itself() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.1.0.1\"", "\"10.99.0.1\"")])), @r#"
    mpt0.toml:10:9: path "fibre" would lead through the tunnel itself: 10.99.0.1 is its own
      help: name the uplink that the path is to take, or an address of it
    "#);
    let interface = ("\"10.1.0.1\"", "\"10.1.0.1\"\ninterface = \"mpt0\"");
    insta::assert_snapshot!(complaint(&edited(&[interface])), @r#"
    mpt0.toml:11:13: path "fibre" would lead through the tunnel itself: mpt0 is its own
      help: name the uplink that the path is to take, or an address of it
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
    mpt0.toml:3:11: "192.168.7.9/24" in `routes` has bits set behind its prefix length
      help: write "192.168.7.0/24"
    "#);
}

#[test]
fn host_bits_in_an_ipv6_route() {
    insta::assert_snapshot!(complaint(&edited(&[("addresses", "routes = [\"2001:db8::1/32\"]\naddresses")])), @r#"
    mpt0.toml:3:11: "2001:db8::1/32" in `routes` has bits set behind its prefix length
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
      help: give one of them another port, like local = "0.0.0.0:4755", and the same in the peer's `remote`, if it has one
    "#);
}

#[test]
fn two_paths_with_one_local_socket() {
    insta::assert_snapshot!(complaint(&edited(&[("\"10.2.0.1\"", "\"10.1.0.1\"")])), @r#"
    mpt0.toml:16:9: paths "fibre" (line 10) and "lte" have one local socket, 10.1.0.1:4754
      help: give one of them another port, like local = "10.1.0.1:4755", and the same in the peer's `remote`, if it has one
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
      help: give one of them another port, like local = "10.1.0.1:4754", and the same in the peer's `remote`, if it has one
    "#);
}

#[test]
fn an_address_of_the_interface_that_no_host_can_have() {
    let said = ["10.99.0.0/30", "10.99.0.3/30", "10.99.255.255/16"]
        .map(|address| complaint(&edited(&[("10.99.0.1/30", address)])));
    insta::assert_snapshot!(said.join("\n"), @r#"
    mpt0.toml:3:14: "10.99.0.0/30" is the address of its network, and no host's
      help: write an address of this host inside the tunnel, like "10.99.0.1/30"

    mpt0.toml:3:14: "10.99.0.3/30" is the broadcast address of its network, and no host's
      help: write an address of this host inside the tunnel, like "10.99.0.1/30"

    mpt0.toml:3:14: "10.99.255.255/16" is the broadcast address of its network, and no host's
      help: write an address of this host inside the tunnel, like "10.99.0.1/30"
    "#);
    for address in ["10.99.0.0/31", "10.99.0.1/31", "10.99.0.0/32", "fd99::/64"] {
        let folder = folder(&[("mpt0.toml", &edited(&[("10.99.0.1/30", address)]))]);
        let (right, _, said) = check(folder.path(), &["--config", "mpt0.toml"]);
        assert!(right, "{address}: {said}");
    }
}
