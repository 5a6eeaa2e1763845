//! The examples of conf/ and of docs/configuration.md are right and fit each other.

use std::net::IpAddr;
use std::path::PathBuf;

use mpt_core::crypto::PrivateKey;

use super::{check, complaint, folder};

/// Private keys of RFC 7748 section 6.1: the public ones stand in the examples.
const ALICE: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\n";
const BOB: &str = "XasIfmJKikt54X+Lg4AO5m87sSkmGLb9HC+LJ/+I4Os=\n";

/// The folder of the whole project.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// docs/configuration.md.
fn document() -> String {
    std::fs::read_to_string(root().join("docs/configuration.md")).unwrap()
}

/// An example of conf/, checked by the daemon, as a table.
fn example(name: &str) -> toml::Table {
    let conf = root().join("conf");
    let (right, _, complaint) = check(&conf, &["--config", name]);
    assert!(right, "{complaint}");
    std::fs::read_to_string(conf.join(name))
        .unwrap()
        .parse()
        .unwrap()
}

/// The prefix that an address of the tunnel lies in.
fn network(prefix: &str) -> (u128, u32, bool) {
    let (address, length) = prefix.split_once('/').unwrap();
    let length: u32 = length.parse().unwrap();
    match address.parse().unwrap() {
        IpAddr::V4(v4) => (u128::from(v4.to_bits() >> (32 - length)), length, true),
        IpAddr::V6(v6) => (v6.to_bits() >> (128 - length), length, false),
    }
}

/// Two files are the two ends of one tunnel.
fn assert_mirrored(a: &toml::Table, b: &toml::Table) {
    for key in ["key", "mtu", "scheduler"] {
        assert_eq!(a["tunnel"].get(key), b["tunnel"].get(key), "{key}");
    }
    assert_eq!(a.get("reorder"), b.get("reorder"));

    let addresses = |end: &toml::Table| end["tunnel"]["addresses"].as_array().unwrap().clone();
    assert_eq!(addresses(a).len(), addresses(b).len());
    for (ours, theirs) in addresses(a).iter().zip(&addresses(b)) {
        assert_ne!(ours, theirs, "each end has its own address");
        let (ours, theirs) = (ours.as_str().unwrap(), theirs.as_str().unwrap());
        assert_eq!(network(ours), network(theirs), "in one network");
    }

    let paths = |end: &toml::Table| end["paths"].as_array().unwrap().clone();
    assert_eq!(paths(a).len(), paths(b).len());
    for (ours, theirs) in paths(a).iter().zip(&paths(b)) {
        assert_eq!(ours["local"], theirs["remote"]);
        assert_eq!(ours["remote"], theirs["local"]);
        for key in ["name", "weight", "keepalive", "dead_after"] {
            assert_eq!(ours.get(key), theirs.get(key), "{key}");
        }
    }
}

#[test]
fn the_site_to_site_examples_are_two_ends_of_one_tunnel() {
    let (a, b) = (example("site-a.toml"), example("site-b.toml"));
    assert_mirrored(&a, &b);
    assert_ne!(a["tunnel"]["routes"], b["tunnel"]["routes"]);
}

#[test]
fn the_dual_stack_examples_are_two_ends_of_one_tunnel() {
    let (a, b) = (example("dual-stack-a.toml"), example("dual-stack-b.toml"));
    assert_mirrored(&a, &b);
    let text = a.to_string();
    assert!(
        text.contains("2001:db8") && text.contains("10.3."),
        "one path of each family"
    );
}

#[test]
fn the_sealed_examples_are_two_ends_of_one_tunnel() {
    let conf = root().join("conf");
    let end = |name: &str, key: &str| -> toml::Table {
        let text = std::fs::read_to_string(conf.join(name)).unwrap();
        let folder = folder(&[("mpt0.toml", &text), ("mpt0.key", key)]);
        let (right, _, complaint) = check(folder.path(), &["--config", "mpt0.toml"]);
        assert!(right && complaint.is_empty(), "{name}: {complaint}");
        text.parse().unwrap()
    };
    let (client, server) = (end("client.toml", BOB), end("server.toml", ALICE));
    let public = |end: &toml::Table| {
        end["crypto"]["peer_public_key"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let of = |key: &str| {
        PrivateKey::from_base64(key)
            .unwrap()
            .public_key()
            .to_string()
    };
    assert_eq!((public(&client), public(&server)), (of(ALICE), of(BOB)));
    let address = |end: &toml::Table| end["tunnel"]["addresses"][0].as_str().unwrap().to_owned();
    assert_eq!(network(&address(&client)), network(&address(&server)));
    let paths = |end: &toml::Table| end["paths"].as_array().unwrap().clone();
    for (ours, theirs) in paths(&client).iter().zip(&paths(&server)) {
        assert_eq!(
            (&ours["name"], &ours["remote"]),
            (&theirs["name"], &theirs["local"])
        );
        assert!(theirs.get("remote").is_none(), "the server learns it");
    }
}

#[test]
fn both_examples_of_a_host_run_in_one_daemon() {
    let conf = root().join("conf");
    for host in ["a", "b"] {
        let files = [
            format!("site-{host}.toml"),
            format!("dual-stack-{host}.toml"),
        ];
        let (right, _, complaint) = check(&conf, &["-c", &files[0], "-c", &files[1]]);
        assert!(right, "{complaint}");
    }
}

/// The part of docs/configuration.md under a heading.
fn chapter<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, rest) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

#[test]
fn the_document_has_a_row_for_every_key() {
    let document = document();
    for section in [
        "[tunnel]",
        "[reorder]",
        "[crypto]",
        "[control]",
        "[[paths]]",
        "[[peers]]",
    ] {
        let tunnel = if section == "[tunnel]" {
            ""
        } else {
            "tunnel = { name = \"mpt0\" }\n"
        };
        let complaint = complaint(&format!("{tunnel}{section}\ncolour = 1\n"));
        let (_, keys) = complaint.trim().rsplit_once(" the keys here are ").unwrap();
        for key in keys.split(", ") {
            let row = format!("\n| `{key}` | ");
            assert!(
                chapter(&document, section).contains(&row),
                "{section} {key}"
            );
        }
    }
}

/// Whole configurations in a document: TOML blocks, and what its commands write into a file.
fn whole_files(document: &str) -> Vec<&str> {
    let between = |begin: &'static str, end: &'static str| {
        let blocks = document.split(begin).skip(1);
        blocks.map(move |rest| rest.split(end).next().unwrap())
    };
    let blocks = between("```toml\n", "```").chain(between("<<'END'\n", "END\n"));
    blocks
        .filter(|block| block.contains("[tunnel]\nname"))
        .collect()
}

#[test]
fn the_whole_files_in_the_documents_are_right() {
    for (name, count) in [
        ("README.md", 0),
        ("docs/configuration.md", 2),
        ("docs/interoperability.md", 2),
        ("docs/hub.md", 2),
        ("docs/two-hosts.md", 1),
        ("docs/plain.md", 5),
    ] {
        let document = std::fs::read_to_string(root().join(name)).unwrap();
        let whole = whole_files(&document);
        assert_eq!(whole.len(), count, "{name}");
        for text in whole {
            let folder = folder(&[("mpt0.toml", text), ("mpt0.key", BOB)]);
            let (right, _, complaint) = check(folder.path(), &["-c", "mpt0.toml"]);
            assert!(right, "{name}: {complaint}");
        }
    }
}
