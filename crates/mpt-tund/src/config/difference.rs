//! What a reload has to do: the difference between two configurations of a tunnel.
//!
//! Paths are told apart by name. A path whose name stays keeps its socket, its round-trip time and
//! its state unless the socket's own values changed; that is what lets a reload lose no packet on
//! paths that did not change. A few things cannot change under a running tunnel; they are named so
//! that the reload can be refused as a whole.

use std::net::IpAddr;

use mpt_core::send::scheduler::Policy;
use mpt_core::tunnel::ReorderSettings;

use super::{Config, Path, PeerChange, Recovery};

/// What changes from one configuration to the next; empty when nothing does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// What cannot change while the tunnel runs, in words.
    pub(crate) needs_restart: Vec<String>,
    /// Addresses of the interface.
    pub(crate) addresses: PrefixChanges,
    /// Routes through the interface.
    pub(crate) routes: PrefixChanges,
    /// New MTU of the interface in bytes, also when it changes because the paths did.
    pub(crate) mtu: Option<u16>,
    /// The GRE key is another one, came or went; the new one stands in the new configuration.
    pub(crate) key: bool,
    /// New scheduler.
    pub(crate) scheduler: Option<Policy>,
    /// Lost packets are sent again from now on, or no more.
    pub(crate) recovery: Option<Recovery>,
    /// New settings of the reorder window.
    pub(crate) reorder: Option<ReorderSettings>,
    /// Peers came, went or changed.
    pub(crate) peers: PeerChange,
    /// Commands that are run when something happens.
    pub(crate) hooks: bool,
    /// Where the metrics are.
    pub(crate) metrics: bool,
    /// Classes came, went or changed.
    pub(crate) classes: bool,
    /// Paths that are new, in the order of the file.
    pub(crate) paths_added: Vec<Path>,
    /// Names of paths that are gone.
    pub(crate) paths_removed: Vec<String>,
    /// Paths that stay with other values, as they are to be.
    pub(crate) paths_changed: Vec<Path>,
}

/// Prefixes that come and go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PrefixChanges {
    /// To add.
    pub(crate) added: Vec<(IpAddr, u8)>,
    /// To remove.
    pub(crate) removed: Vec<(IpAddr, u8)>,
}

/// Compares two configurations of one tunnel.
pub(crate) fn difference(old: &Config, new: &Config) -> Changes {
    let named = |paths: &[Path], name: &str| paths.iter().find(|path| path.name == name).cloned();
    let gone = |path: &&Path| named(&new.paths, &path.name).is_none();
    let fresh = |path: &&Path| named(&old.paths, &path.name).is_none();
    Changes {
        needs_restart: needs_restart(old, new),
        addresses: prefixes(&old.tunnel.addresses, &new.tunnel.addresses),
        routes: prefixes(&old.tunnel.routes, &new.tunnel.routes),
        mtu: changed(old.mtu(), new.mtu()),
        key: old.tunnel.key != new.tunnel.key,
        scheduler: changed(old.tunnel.scheduler, new.tunnel.scheduler),
        recovery: changed(old.recovery, new.recovery),
        reorder: changed(old.reorder, new.reorder),
        peers: match (&old.peers, &new.peers) {
            (Some(old), Some(new)) => PeerChange::between(old, new),
            // That takes a restart.
            (None, _) | (_, None) => PeerChange::default(),
        },
        hooks: old.hooks != new.hooks,
        metrics: old.metrics != new.metrics,
        classes: old.classes != new.classes,
        paths_added: new.paths.iter().filter(fresh).cloned().collect(),
        paths_removed: old
            .paths
            .iter()
            .filter(gone)
            .map(|path| path.name.clone())
            .collect(),
        paths_changed: new
            .paths
            .iter()
            .filter(|path| named(&old.paths, &path.name).is_some_and(|old| old != **path))
            .cloned()
            .collect(),
    }
}

fn changed<T: PartialEq>(old: T, new: T) -> Option<T> {
    (old != new).then_some(new)
}

fn needs_restart(old: &Config, new: &Config) -> Vec<String> {
    let mut reasons = Vec::new();
    if old.user != new.user {
        reasons.push("the user".to_owned());
    }
    if old.tunnel.name != new.tunnel.name {
        let (old, new) = (&old.tunnel.name, &new.tunnel.name);
        reasons.push(format!("the tunnel's name, from {old} to {new}"));
    }
    if old.control.socket != new.control.socket {
        let (old, new) = (old.control.socket.display(), new.control.socket.display());
        reasons.push(format!("the control socket, from {old} to {new}"));
    }
    if (&old.control.owner, old.control.mode) != (&new.control.owner, new.control.mode) {
        reasons.push("owner or mode of the control socket".to_owned());
    }
    if old.tunnel.offload != new.tunnel.offload {
        let (old, new) = (old.tunnel.offload.name(), new.tunnel.offload.name());
        reasons.push(format!("offload, from {old} to {new}"));
    }
    if old.tunnel.routing != new.tunnel.routing {
        let (old, new) = (old.tunnel.routing.name(), new.tunnel.routing.name());
        reasons.push(format!("routing, from {old} to {new}"));
    }
    if old.tunnel.state_dir != new.tunnel.state_dir {
        reasons.push("state_dir".to_owned());
    }
    if old.tunnel.workers != new.tunnel.workers {
        reasons.push("workers".to_owned());
    }
    if old.tunnel.clamps_mss != new.tunnel.clamps_mss {
        reasons.push(format!("clamp_mss, to {}", new.tunnel.clamps_mss));
    }
    match (&old.peers, &new.peers) {
        (None, Some(_)) => {
            reasons.push("[[peers]], which are new: the tunnel becomes a hub".to_owned())
        }
        (Some(_), None) => {
            reasons.push("[[peers]], which are gone: it is no hub any more".to_owned())
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    match (&old.crypto, &new.crypto) {
        (None, Some(_)) => reasons.push("[crypto], which is new".to_owned()),
        (Some(_), None) => reasons.push("[crypto], which is gone".to_owned()),
        (Some(old), Some(new)) if !old.has_keys_of(new) => {
            reasons.push("the keys of [crypto]".to_owned());
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    reasons
}

fn prefixes(old: &[(IpAddr, u8)], new: &[(IpAddr, u8)]) -> PrefixChanges {
    let without = |these: &[(IpAddr, u8)], those: &[(IpAddr, u8)]| {
        let mut rest = these.to_vec();
        rest.retain(|prefix| !those.contains(prefix));
        rest
    };
    PrefixChanges {
        added: without(new, old),
        removed: without(old, new),
    }
}

impl Changes {
    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

#[cfg(test)]
mod tests {
    use mpt_core::crypto::{KEY_BYTES, PrivateKey};

    use super::super::Files;
    use super::super::document::Source;
    use super::super::parse;
    use super::*;

    const BASE: &str = r#"
        [tunnel]
        name = "mpt0"
        addresses = ["10.99.0.1/30"]
        [[paths]]
        name = "fibre"
        local = "10.1.0.1"
        remote = "10.1.0.2"
        [[paths]]
        name = "lte"
        local = "10.2.0.1"
        remote = "10.2.0.2"
    "#;

    fn config(text: &str) -> Config {
        let file = std::path::Path::new("mpt0.toml");
        parse::parse(Source {
            file,
            text,
            files: &Files::Own,
        })
        .unwrap()
        .0
    }

    fn changes(edits: &[(&str, &str)]) -> Changes {
        let edited = edits.iter().fold(BASE.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from} is in the text");
            text.replace(from, to)
        });
        difference(&config(BASE), &config(&edited))
    }

    #[test]
    fn the_same_configuration_changes_nothing() {
        assert!(changes(&[]).is_empty());
    }

    #[test]
    fn a_port_that_the_file_comes_to_name_changes_its_paths() {
        let one = changes(&[("10.1.0.1", "10.1.0.1:4754")]);
        let names = |changes: &Changes| {
            let changed = changes.paths_changed.iter();
            changed.map(|path| path.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&one), ["fibre"]);
        assert!(one.paths_changed[0].local.port_is_given);
        let all = changes(&[("[tunnel]", "[tunnel]\nport = 4754")]);
        assert_eq!(names(&all), ["fibre", "lte"]);
    }

    #[test]
    fn a_new_weight_changes_its_path_and_the_scheduler() {
        let changes = changes(&[("\"10.2.0.2\"", "\"10.2.0.2\"\nweight = 50")]);
        let [path] = changes.paths_changed.as_slice() else {
            panic!("one path changed: {changes:?}");
        };
        assert_eq!((path.name.as_str(), path.weight), ("lte", 50));
        assert_eq!(changes.scheduler, Some(Policy::Weighted));
    }

    #[test]
    fn a_renamed_path_goes_and_comes() {
        let changes = changes(&[("\"lte\"", "\"starlink\"")]);
        assert_eq!(changes.paths_removed, ["lte"]);
        assert_eq!(changes.paths_added[0].name, "starlink");
    }

    #[test]
    fn prefixes_come_and_go_one_by_one() {
        let changes = changes(&[("[\"10.99.0.1/30\"]", "[\"10.99.0.1/30\", \"fd00::1/64\"]")]);
        assert_eq!(changes.addresses.added, [("fd00::1".parse().unwrap(), 64)]);
        assert!(changes.addresses.removed.is_empty());
    }

    #[test]
    fn the_mtu_follows_the_paths_and_the_key() {
        assert_eq!(
            changes(&[("[tunnel]", "[tunnel]\nkey = 7")]).mtu,
            Some(1460)
        );
        let ipv6 = [("10.2.0.1", "fd00::1"), ("10.2.0.2", "fd00::2")];
        assert_eq!(changes(&ipv6).mtu, Some(1444));
    }

    #[test]
    fn a_new_name_or_control_socket_needs_a_restart() {
        let renamed = changes(&[("mpt0", "mpt1")]);
        assert_eq!(renamed.needs_restart.len(), 2, "{renamed:?}");
    }

    #[test]
    fn other_keys_need_a_restart_and_the_same_in_another_file_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let key = |name: &str, first: u8| {
            let key = PrivateKey::from_random([first; KEY_BYTES]);
            std::fs::write(folder.path().join(name), key.to_base64().as_str()).unwrap();
            key.public_key()
        };
        let (_, peer) = (key("a", 8), key("b", 16));
        std::fs::copy(folder.path().join("a"), folder.path().join("c")).unwrap();
        let sealed = |file: &str| {
            let file = folder.path().join(file);
            let text = format!(
                "[crypto]\nprivate_key_file = \"{}\"\npeer_public_key = \"{peer}\"\n{BASE}",
                file.display()
            );
            config(&text)
        };
        let plain = config(BASE);
        let reasons = |old: &Config, new: &Config| difference(old, new).needs_restart;
        assert_eq!(reasons(&plain, &sealed("a")), ["[crypto], which is new"]);
        assert_eq!(reasons(&sealed("a"), &plain), ["[crypto], which is gone"]);
        assert!(difference(&sealed("a"), &sealed("c")).is_empty());
        key("a", 24);
        assert_eq!(
            reasons(&sealed("c"), &sealed("a")),
            ["the keys of [crypto]"]
        );
        assert_eq!(sealed("a").mtu(), 1442);
    }

    #[test]
    fn other_metrics_need_no_restart() {
        let changes = changes(&[("[tunnel]", "[metrics]\nlisten = \"[::1]:9754\"\n[tunnel]")]);
        assert!(changes.metrics && changes.needs_restart.is_empty());
    }

    #[test]
    fn another_offload_needs_a_restart() {
        let changes = changes(&[("[tunnel]", "[tunnel]\noffload = \"off\"")]);
        assert_eq!(changes.needs_restart, ["offload, from auto to off"]);
    }
}
