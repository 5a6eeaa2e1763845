//! Mistakes in `[[classes]]`, and what is right there.

use super::{check, folder};

const BASE: &str = r#"[tunnel]
name = "mpt0"

[crypto]
private_key_file = "mpt0.key"
peer_public_key = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="

[[paths]]
name = "fibre"
local = "10.1.0.1"
remote = "10.1.0.2"

[[paths]]
name = "lte"
local = "10.2.0.1"
remote = "10.2.0.2"
metered = true

"#;
/// That of RFC 7748 section 6.1.
const KEY: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\n";

fn said(text: &str) -> (bool, String) {
    let folder = folder(&[("mpt0.toml", text), ("mpt0.key", KEY)]);
    let (right, _, complaint) = check(folder.path(), &["--config", "mpt0.toml"]);
    (right, complaint.trim_end().to_owned())
}

/// What is said to these classes.
fn with(classes: &str) -> String {
    said(&format!("{BASE}{classes}")).1
}

fn class(lines: &str) -> String {
    with(&format!("[[classes]]\nname = \"calls\"\n{lines}\n"))
}

#[test]
fn what_the_document_shows_is_right() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/classes.md");
    let document = std::fs::read_to_string(document).unwrap();
    let blocks = document.split("```toml\n").skip(1);
    let mut classes = 0;
    for block in blocks.map(|rest| rest.split("```").next().unwrap()) {
        let at = block.find("[[classes]]").unwrap();
        assert_eq!(with(&block[at..]), "", "{block}");
        classes += 1;
    }
    assert!(classes >= 3);
}

#[test]
fn the_document_has_a_row_for_every_key() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let document = std::fs::read_to_string(document).unwrap();
    for (lines, before) in [("colour = 1", ""), ("match = { colour = 1 }", "match.")] {
        let said = class(lines);
        let (_, keys) = said.rsplit_once(" the keys here are ").unwrap();
        for key in keys.split(", ") {
            assert!(
                document.contains(&format!("\n| `{before}{key}` | ")),
                "{key}"
            );
        }
    }
}

#[test]
fn every_key_is_right() {
    let all = r#"match = { dscp = [46, "AF41", "cs1"], ports = [5060, "16384-32767"], to = ["10.0.0.0/8", "fd00::/8"] }
        paths = ["fibre", "lte"]
        policy = "redundant"
        priority = "high"
        copies = "2 Mbit/s""#;
    assert_eq!(class(all), "");
    for policy in ["adaptive", "fastest", "sparing"] {
        let lines = format!("match = {{}}\npolicy = \"{policy}\"\npriority = \"low\"");
        assert_eq!(class(&lines), "");
    }
}

#[test]
fn a_match_that_makes_no_sense() {
    for (lines, expected) in [
        ("", "[[classes]] has no `match`"),
        ("match = { dscp = [64] }", "`dscp` is 64: out of range"),
        ("match = { dscp = [\"EV\"] }", "there is no DSCP \"EV\""),
        (
            "match = { dscp = [] }",
            "`dscp` is an empty list, which nothing would match",
        ),
        (
            "match = { dscp = [46, \"EF\"] }",
            "this DSCP stands here twice",
        ),
        ("match = { dscp = [\"64\"] }", "there is no DSCP \"64\""),
        ("match = { ports = [0] }", "`ports` is 0: out of range"),
        (
            "match = { ports = [\"9-8\"] }",
            "\"9-8\" is no range of ports",
        ),
        (
            "match = { ports = [80, \"79-81\"] }",
            "80 and 79-81 overlap",
        ),
        (
            "match = { to = [\"10.0.0.1/8\"] }",
            "\"10.0.0.1/8\" in `to` has bits set behind its prefix length",
        ),
        (
            "match = { port = [80] }",
            "unknown key `port` in `match` of [[classes]]",
        ),
        ("match = 1", "`match` must be a section, not an integer"),
    ] {
        let said = class(lines);
        let (first, remedy) = said.split_once("\n  help: ").unwrap();
        assert!(first.ends_with(expected), "{said}");
        assert!(!remedy.is_empty());
    }
    let quoted = class("match = { dscp = [\"46\"] }");
    assert!(
        quoted.trim_end().ends_with("help: write 46 without quotes"),
        "{quoted}"
    );
}

#[test]
fn paths_and_policies_that_make_no_sense() {
    for (lines, expected, remedy) in [
        (
            "paths = [\"fiber\"]",
            "there is no path \"fiber\"",
            "the paths are fibre, lte",
        ),
        (
            "paths = [\"lte\", \"lte\"]",
            "path \"lte\" stands here twice",
            "remove one of them",
        ),
        (
            "paths = []",
            "`paths` is an empty list: the class could go nowhere",
            "name its paths, or leave `paths` out for all",
        ),
        ("policy = \"quick\"", "there is no policy \"quick\"", ""),
        (
            "priority = 1",
            "`priority` must be text in double quotes, not an integer",
            "",
        ),
        (
            "priority = \"urgent\"",
            "there is no priority \"urgent\"",
            "",
        ),
        (
            "copies = \"1 Mbit/s\"",
            "`copies` means nothing with policy = \"adaptive\"",
            "",
        ),
        (
            "policy = \"redundant\"\ncopies = \"fast\"",
            "`copies` is \"fast\"",
            "",
        ),
        (
            "policy = \"redundant\"\npaths = [\"lte\"]",
            "class \"calls\" is redundant over one path",
            "copies go over two paths: name another one",
        ),
    ] {
        let said = class(&format!("match = {{}}\n{lines}"));
        let (first, help) = said.split_once("\n  help: ").unwrap();
        assert!(first.ends_with(expected), "{said}");
        assert!(help.starts_with(remedy), "{said}");
    }
}

#[test]
fn classes_that_do_not_go_together() {
    let of =
        |name: &str, matches: &str| format!("[[classes]]\nname = \"{name}\"\nmatch = {matches}\n");
    let twice = of("a", "{ dscp = [1] }") + &of("a", "{ dscp = [2] }");
    assert!(with(&twice).contains("two classes are called \"a\""));
    let hidden = of("a", "{ ports = [\"1-100\"] }") + &of("b", "{ ports = [80], dscp = [1] }");
    let said = with(&hidden);
    assert!(
        said.contains("all that class \"b\" matches is of class \"a\""),
        "{said}"
    );
    let apart = of("a", "{ ports = [\"1-100\"] }") + &of("b", "{ ports = [80, 443] }");
    assert_eq!(with(&apart), "");
    let many: String = (0..9)
        .map(|at| of(&format!("c{at}"), &format!("{{ dscp = [{at}] }}")))
        .collect();
    assert!(with(&many).contains("`classes` has 9 elements"));
    assert!(with("[classes]\nname = \"a\"\n").contains("[classes] is a single section"));
}

#[test]
fn tunnels_that_have_no_classes() {
    let calls = "[[classes]]\nname = \"calls\"\nmatch = {}\n";
    let weighted = format!("{BASE}weight = 3\n{calls}");
    assert!(
        said(&weighted)
            .1
            .contains("[[classes]] do not go with scheduler = \"weighted\"")
    );
    let hub = BASE.replace(
        "peer_public_key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\n",
        "",
    );
    let hub = hub
        .replace("remote = \"10.1.0.2\"\n", "")
        .replace("remote = \"10.2.0.2\"\n", "");
    let peer = "[[peers]]\nname = \"alice\"\npublic_key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\nallowed_ips = [\"10.99.0.2/32\"]\n";
    let said_of_hub = said(&format!("{hub}{peer}{calls}")).1;
    assert!(
        said_of_hub.contains("[[classes]] do not go with [[peers]]"),
        "{said_of_hub}"
    );
    let crypto = BASE.find("[crypto]").unwrap()..BASE.find("[[paths]]").unwrap();
    let mut plain = BASE.to_owned();
    plain.replace_range(crypto, "");
    let redundant = format!("{plain}{calls}policy = \"redundant\"\n");
    assert!(
        said(&redundant)
            .1
            .contains("policy = \"redundant\" needs [crypto]")
    );
    let metered = BASE.replace("10.1.0.2\"", "10.1.0.2\"\nmetered = true");
    let sparing = format!("{metered}{calls}policy = \"sparing\"\n");
    assert!(
        said(&sparing)
            .1
            .contains("class \"calls\" is sparing, and all paths are metered")
    );
}
