//! Classes as an operator meets them: in the file, at a reload, and in what `mpt-ctl status` shows.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use net::daemon::PATIENCE;
use net::settings::Side;
use net::traffic::ping;
use net::{Hosts, Settings, Shape, wait_for};
use serde_json::Value;

const CALLS: &str = r#"
[[classes]]
name = "calls"
match = { dscp = ["EF"] }
policy = "redundant"
priority = "high"
"#;

fn class<'a>(status: &'a Value, name: &str) -> &'a Value {
    let mut classes = status["classes"].as_array().unwrap().iter();
    classes.find(|class| class["name"] == name).unwrap()
}

#[test]
fn a_reload_brings_classes_and_status_shows_them() {
    let Some(_turn) = net::turn() else { return };
    let hosts = Hosts::new(&[Shape::unshaped(), Shape::unshaped()]);
    let tunnel = hosts.tunnel(&Settings::new().sealed());
    assert!(tunnel.a.ctl(&["status"])["classes"].is_null());
    let file = tunnel.a.config();
    let plain = std::fs::read_to_string(&file).unwrap();
    let paths: Vec<String> = tunnel
        .a
        .status()
        .paths
        .into_iter()
        .map(|path| path.name)
        .collect();

    std::fs::write(&file, plain.clone() + CALLS).unwrap();
    let said = tunnel.a.ctl_text(&["reload"]);
    assert!(said.contains("read again"), "{said}");
    let ef = |words: &str| {
        let words = format!("-s 200 {words}");
        ping(&tunnel.hosts.a, Side::B.inner_v4(), 40, 20, &words)
    };
    let seen = ef("-Q 0xb8");
    assert_eq!((seen.received, seen.duplicates), (40, 0));
    let seen = ef("");
    assert_eq!((seen.received, seen.duplicates), (40, 0));
    let status = wait_for("counters", PATIENCE, || {
        let status = tunnel.a.ctl(&["status"]);
        (class(&status, "calls")["packets"] == 40).then_some(status)
    });
    let calls = class(&status, "calls");
    assert_eq!(
        (&calls["copies"], &calls["uncopied"]),
        (&40.into(), &0.into()),
        "{calls}"
    );
    let drops = tunnel.b.status().tunnel.drops;
    assert_eq!((drops["duplicate"], drops["replayed"]), (40, 0));
    let text = tunnel.a.status_text();
    assert!(
        text.contains("CLASS") && text.contains("redundant"),
        "{text}"
    );

    // A sparing class whose path is taken out of service: nothing goes, and the verdict says so.
    let (first, second) = (&paths[0], &paths[1]);
    let sparing = format!(
        "\n[[classes]]\nname = \"backup\"\nmatch = {{ dscp = [8] }}\npaths = [\"{first}\"]\npolicy = \"sparing\"\n"
    );
    std::fs::write(&file, plain.clone() + CALLS + &sparing).unwrap();
    let _ = tunnel.a.ctl_text(&["reload"]);
    assert_eq!(ef("-Q 0x20").received, 40);
    tunnel.a.ctl(&["path", "down", first]);
    wait_for("the path to be out of service", PATIENCE, || {
        (ping(&tunnel.hosts.a, Side::B.inner_v4(), 1, 20, "-Q 0x20").received == 0).then_some(())
    });
    assert_eq!(ef("-Q 0x20").received, 0);
    assert_eq!(ef("").received, 40, "over {second}");
    let status = tunnel.a.ctl(&["status"]);
    assert_eq!(
        class(&status, "calls")["packets"],
        40,
        "kept over the reload"
    );
    assert!(
        class(&status, "backup")["dropped_no_path"]
            .as_u64()
            .unwrap()
            >= 40
    );
    let messages = status["verdict"]["messages"].as_array().unwrap();
    assert!(
        messages
            .iter()
            .any(|message| message["code"] == "class-paths"),
        "{messages:?}"
    );

    // A mistake changes nothing.
    std::fs::write(&file, plain.clone() + &CALLS.replace("\"EF\"", "\"EV\"")).unwrap();
    let refused = tunnel.a.ctl_output(&["reload"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("there is no DSCP \"EV\""), "{words}");
    assert!(!class(&tunnel.a.ctl(&["status"]), "backup").is_null());

    std::fs::write(&file, plain).unwrap();
    let _ = tunnel.a.ctl_text(&["reload"]);
    assert!(tunnel.a.ctl(&["status"])["classes"].is_null());
    assert_eq!(ef("-Q 0x20").received, 40);
}
