use std::path::Path as FilePath;

use proptest::prelude::*;

use super::*;
use crate::config;

#[test]
fn a_window_can_be_set_where_there_is_one() {
    let set = |now| changed(now, Some(64.into()), None, None);
    let window = ReorderSettings::default();
    assert_eq!(set(window).unwrap().window, 64);
    let block = ReorderSettings {
        block: Some(32),
        ..window
    };
    insta::assert_snapshot!(set(block).unwrap_err(), @r#"this tunnel sorts blocks and holds nothing, so it has no window to set; write mode = "window" in [reorder] of its file, and `mpt-ctl reload`"#);
}

#[test]
fn a_reload_tells_what_is_still_missing_also_when_nothing_has_changed() {
    let missing = [Missing {
        what: "path lte".to_owned(),
        why: "interface wwan0 is not there".to_owned(),
    }];
    let file = FilePath::new("office.toml");
    insta::assert_snapshot!(told_reloaded(file, true, &[]), @"office.toml read again");
    insta::assert_snapshot!(told_reloaded(file, false, &missing), @"office.toml read again; nothing has changed; still missing, and tried again until it is there: path lte (interface wwan0 is not there)");
}

#[test]
fn what_would_have_no_effect_is_refused_with_what_to_do() {
    let off = ReorderSettings {
        window: 0.into(),
        ..ReorderSettings::default()
    };
    insta::assert_snapshot!(changed(off, None, Some(5000.into()), None).unwrap_err(), @"with window=0 nothing is put in order, so that no packet is held or late; set window=auto as well");
    insta::assert_snapshot!(changed(ReorderSettings::default(), None, None, None).unwrap_err(), @"nothing to set: give window=N, max_buffer_delay=D or late=deliver|drop");
    assert!(changed(off, Some(Setting::Auto), Some(5000.into()), None).is_ok());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpt0.toml");
    for policy in Policy::ALL {
        std::fs::write(&file, text_with(policy)).unwrap();
        let config = Config::read(&file).unwrap();
        let set = settable_weight(&config, "fibre", Some(40));
        let takes = matches!(policy, Policy::Weighted | Policy::Backup | Policy::Flow);
        assert_eq!(set.is_ok(), takes, "{}", policy.name());
        if let Err(error) = set {
            let text = error.to_string();
            assert!(text.contains("scheduler = \"weighted\""), "{text}");
        }
        let traced = traceable(&config, "fibre");
        assert_eq!(traced.is_ok(), policy == Policy::Adaptive);
        if let Err(error) = traced {
            let text = error.to_string();
            assert!(text.contains("scheduler = \"adaptive\""), "{text}");
        }
        let unknown = traceable(&config, "lte").unwrap_err().to_string();
        assert!(unknown.contains("the paths are fibre"), "{unknown}");
    }
}

/// RFC 7748 section 6.1: a private key, and a public key of another.
const PRIVATE: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
const ALICE: &str = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";

/// A hub in that folder: alice stands in its file; or bob in one of his own, where it has a folder of peers.
fn hub_in(folder: &FilePath, peers_dir: bool) -> Config {
    let alice = format!("public_key = \"{ALICE}\"\nallowed_ips = [\"10.99.0.2/32\"]\n");
    let dir = folder.join("peers.d");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(folder.join("private.key"), PRIVATE).unwrap();
    let (key, peers) = match peers_dir {
        false => ("", format!("[[peers]]\nname = \"alice\"\n{alice}")),
        true => {
            std::fs::write(dir.join("alice.toml"), alice).unwrap();
            ("peers_dir = \"peers.d\"", String::new())
        }
    };
    let file = folder.join("mpt0.toml");
    let text = format!(
        "[tunnel]\nname = \"mpt0\"\n{key}\n[reorder]\nwindow = 64\n[crypto]\nprivate_key_file = \"private.key\"\n\
         [[paths]]\nname = \"isp\"\nlocal = \"10.1.0.1\"\n{peers}"
    );
    std::fs::write(&file, text).unwrap();
    Config::read(&file).unwrap()
}

#[test]
fn a_hub_has_its_order_from_its_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let hub = hub_in(folder.path(), false);
    assert_eq!(hub.reorder.window, 64);
    let refused = two_ends(&hub).unwrap_err().to_string();
    assert!(refused.contains("`mpt-ctl peer show NAME`"), "{refused}");
    assert!(refused.contains("mpt0.toml"), "{refused}");
}

#[test]
fn what_was_done_to_a_peer_is_kept_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let told = |peers_dir| {
        let hub = hub_in(folder.path(), peers_dir);
        let alice = Peer::clone(hub.peers.as_ref().unwrap().get("alice").unwrap());
        let mut dave = alice.clone();
        dave.name = "dave".to_owned();
        dave.origin = Origin::Request;
        let told = [
            kept(&hub, &alice, PeerAct::Changed),
            kept(&hub, &alice, PeerAct::Removed),
            kept(&hub, &dave, PeerAct::Added),
            kept(&hub, &dave, PeerAct::Removed),
        ];
        let here = format!("{}/", folder.path().display());
        told.join("\n").replace(&here, "")
    };
    insta::assert_snapshot!(told(false), @r"
    peer alice is changed, until the next reload or start; to keep that, change it in [[peers]] of mpt0.toml
    peer alice is taken away, until the next reload or start; to keep that, take it out of [[peers]] in mpt0.toml
    peer dave may call, until the next reload or start; to keep that, add it to [[peers]] in mpt0.toml
    peer dave is taken away
    ");
    insta::assert_snapshot!(told(true), @r"
    peer alice is changed, until its file changes, or the next reload or start; to keep that, change peers.d/alice.toml
    peer alice is taken away, until its file changes, or the next reload or start; to keep that, remove peers.d/alice.toml
    peer dave may call, until the next reload or start; to keep that, write peers.d/dave.toml
    peer dave is taken away
    ");
}

#[test]
fn a_save_says_which_peers_are_other_than_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    for peers_dir in [false, true] {
        let files = hub_in(folder.path(), peers_dir);
        let told = |change: &dyn Fn(&Arc<Peer>, &mut Roster)| {
            let mut running = files.clone();
            let roster = running.peers.as_mut().unwrap();
            change(&roster.get("alice").unwrap().clone(), roster);
            let peers = unsaved_peers(&running, files.clone());
            let told = told_saved(&running, &[], &peers);
            told.rsplit_once("mpt0.toml ").unwrap().1.to_owned()
        };
        let as_it_is = told(&|_, _| ());
        assert_eq!(as_it_is, "says all of this already");
        let exchange = |alice: &Arc<Peer>, roster: &mut Roster| {
            let mut dave = Peer::clone(alice);
            dave.name = "dave".to_owned();
            dave.origin = Origin::Request;
            roster.exchange(Some(alice), Some(dave.into())).unwrap();
        };
        assert_eq!(
            told(&exchange),
            "says all else already; peers are not saved, and the files do not have this: dave may call; alice \
             taken away"
        );
        let limit = |alice: &Arc<Peer>, roster: &mut Roster| {
            let mut limited = Peer::clone(alice);
            limited.rate_limit = Some(1_000_000);
            roster.exchange(Some(alice), Some(limited.into())).unwrap();
        };
        assert_eq!(
            told(&limit),
            "says all else already; peers are not saved, and the files do not have this: alice changed"
        );
    }
}

fn text_with(policy: Policy) -> String {
    format!(
        "[tunnel]\nname = \"mpt0\"\nscheduler = \"{}\"\n[[paths]]\nname = \"fibre\"\n\
         local = \"10.1.0.1\"\nremote = \"10.1.0.2\"\n",
        policy.name()
    )
}

/// A tunnel's settings and its file, changed as [`answer`] changes them, without a tunnel.
struct Model {
    config: Config,
}

impl Model {
    fn start(file: &FilePath) -> Model {
        Model {
            config: Config::read(file).unwrap(),
        }
    }

    fn ask(&mut self, request: Request) -> anyhow::Result<()> {
        match request {
            Request::PathSet { name, weight } => {
                let weight = settable_weight(&self.config, &name, weight)?;
                let mut paths = self.config.paths.iter_mut();
                let path = paths.find(|path| path.name == name).unwrap();
                path.weight = weight;
            }
            Request::ReorderSet {
                window,
                max_buffer_delay_us,
                late,
            } => {
                self.config.reorder =
                    changed(self.config.reorder, window, max_buffer_delay_us, late)?;
            }
            Request::Reload => self.config = Config::read(&self.config.file.clone())?,
            Request::Save => {
                config::save(
                    &self.config.file,
                    &self.config.running(),
                    &config::Files::Own,
                    config::replace,
                )?;
            }
            Request::PathUp { name } | Request::PathDown { name } => known(&self.config, &name)?,
            Request::Trace { name, .. } => traceable(&self.config, &name)?,
            Request::Peers
            | Request::PeerShow { .. }
            | Request::PeerAdd { .. }
            | Request::PeerSet { .. }
            | Request::PeerRemove { .. } => hub(&self.config).map(drop)?,
            Request::Status
            | Request::Paths
            | Request::Reorder
            | Request::History { .. }
            | Request::Log { .. } => {}
        }
        Ok(())
    }
}

const NAMES: [&str; 3] = ["fibre", "lte", "dsl.2"];

fn setting<T: std::fmt::Debug + Clone>(
    fixed: impl Strategy<Value = T>,
) -> impl Strategy<Value = Setting<T>> {
    prop_oneof![
        1 => Just(Setting::Auto),
        3 => fixed.prop_map(Setting::Fixed),
    ]
}

fn late() -> impl Strategy<Value = LatePolicy> {
    prop_oneof![Just(LatePolicy::Deliver), Just(LatePolicy::Drop)]
}

fn request() -> impl Strategy<Value = Request> {
    let name = || prop::sample::select(vec!["fibre", "lte", "dsl.2", "nowhere"]);
    let name = || name().prop_map(str::to_owned);
    prop_oneof![
        4 => (name(), prop::option::of(0..1_000_002_u32))
            .prop_map(|(name, weight)| Request::PathSet { name, weight }),
        4 => (
            prop::option::of(setting(0..40_000_u32)),
            prop::option::of(setting(0..11_000_000_u64)),
            prop::option::of(late()),
        )
            .prop_map(|(window, max_buffer_delay_us, late)| Request::ReorderSet {
                window,
                max_buffer_delay_us,
                late,
            }),
        2 => Just(Request::Save),
        1 => Just(Request::Reload),
        1 => name().prop_map(|name| Request::PathDown { name }),
        1 => name().prop_map(|name| Request::PathUp { name }),
    ]
}

/// The sections of a file, in one of the ways to write them.
fn file_text() -> impl Strategy<Value = String> {
    let scheduler = prop::option::of(prop::sample::select(Policy::ALL.to_vec()));
    let weights = prop::collection::vec(prop::option::of(1..500_u32), 1..=NAMES.len());
    let reorder = prop_oneof![
        2 => Just(None),
        1 => prop::option::of(2..1000_u16).prop_map(|size| {
            let size = size.map_or_else(String::new, |size| format!("block_size = {size} # small\n"));
            Some(format!("mode = \"block\"\n{size}"))
        }),
        3 => (
            prop::option::of(setting(0..32_768_u32)),
            prop::option::of(setting(1..10_000_u32)),
            prop::option::of(late()),
        )
            .prop_map(|(window, delay, late)| Some(window_section(window, delay, late))),
    ];
    (scheduler, weights, reorder, any::<[bool; 4]>()).prop_map(
        |(scheduler, weights, reorder, [inline, first, comments, windows])| {
            let scheduler = scheduler.map_or_else(String::new, |policy| {
                format!("scheduler = \"{}\" # as it is\n", policy.name())
            });
            let mut text = format!("# A tunnel.\n[tunnel] # head\nname = \"mpt0\"\n{scheduler}\n");
            let reorder = reorder.map_or_else(String::new, |keys| format!("[reorder]\n{keys}\n"));
            if first {
                text += &reorder;
            }
            let paths: Vec<String> = std::iter::zip(NAMES, &weights)
                .enumerate()
                .map(|(at, (name, weight))| path_text(at, name, *weight, inline))
                .collect();
            if inline {
                // Keys of the root come before the first section.
                text = format!("paths = [\n{}]\n{text}", paths.concat());
            } else {
                text += &paths.concat();
            }
            if !first {
                text += &reorder;
            }
            if comments {
                text += "# The end.\n";
            }
            match windows {
                true => text.replace('\n', "\r\n"),
                false => text,
            }
        },
    )
}

fn window_section(
    window: Option<Setting<u32>>,
    delay_ms: Option<Setting<u32>>,
    late: Option<LatePolicy>,
) -> String {
    let mut keys = String::new();
    if let Some(window) = window {
        keys += &match window {
            Setting::Auto => "window = \"auto\"\n".to_owned(),
            Setting::Fixed(window) => format!("window = {window} # packets\n"),
        };
    }
    if let Some(delay) = delay_ms {
        keys += &match delay {
            Setting::Auto => "max_buffer_delay = \"auto\"\n".to_owned(),
            Setting::Fixed(ms) => format!("max_buffer_delay = \"{ms}ms\"\n"),
        };
    }
    match late {
        Some(LatePolicy::Deliver) => keys += "late = \"deliver\" # all\n",
        Some(LatePolicy::Drop) => keys += "late = \"drop\"\n",
        None => {}
    }
    keys
}

fn path_text(at: usize, name: &str, weight: Option<u32>, inline: bool) -> String {
    let ends = format!("local = \"10.{at}.0.1\", remote = \"10.{at}.0.2\"");
    match (inline, weight) {
        (true, None) => format!("    {{ name = \"{name}\", {ends} }}, # {name}\n"),
        (true, Some(weight)) => {
            format!("    {{ name = \"{name}\", weight = {weight}, {ends} }}, # {name}\n")
        }
        (false, weight) => {
            let weight = weight.map_or_else(
                || "# no weight\n".to_owned(),
                |weight| format!("weight = {weight} # Mbit/s\n"),
            );
            let ends = ends.replace(", ", "\n");
            format!("[[paths]] # {name}\nname = \"{name}\"\n{ends}\n{weight}\n")
        }
    }
}

fn comments(text: &str) -> Vec<String> {
    let comments = text.lines().filter_map(|line| line.split_once('#'));
    let mut comments: Vec<String> = comments
        .map(|(_, comment)| comment.trim().to_owned())
        .collect();
    comments.sort();
    comments
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// What is set has effect or is refused, and after `save` a reload changes nothing that runs.
    #[test]
    fn save_then_reload_changes_nothing_that_runs(
        text in file_text(),
        requests in prop::collection::vec(request(), 1..25),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mpt0.toml");
        std::fs::write(&file, &text).unwrap();
        let mut tunnel = Model::start(&file);
        for request in requests {
            let before = tunnel.config.clone();
            let done = tunnel.ask(request.clone());
            if matches!(request, Request::Save | Request::Reload) {
                prop_assert!(done.is_ok(), "{request:?}: {done:?}");
            } else if done.is_err() {
                prop_assert_eq!(&tunnel.config, &before);
            }
            if request == Request::Save {
                prop_assert_eq!(&tunnel.config, &before);
            }
        }
        tunnel.ask(Request::Save).unwrap();
        let running = tunnel.config.clone();
        tunnel.ask(Request::Reload).unwrap();
        prop_assert!(config::difference(&running, &tunnel.config).is_empty());
        prop_assert_eq!(running, tunnel.config);
        let saved = std::fs::read_to_string(&file).unwrap();
        prop_assert_eq!(comments(&saved), comments(&text));
        prop_assert_eq!(saved.contains("\r\n"), text.contains("\r\n"));
    }
}
