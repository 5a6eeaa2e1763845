use std::os::unix::fs::PermissionsExt as _;

use mpt_core::control::LatePolicy;
use std::time::Duration;

use super::*;

fn save(file: &FilePath, running: &Running) -> Result<Vec<String>, SaveError> {
    super::save(file, running, &Files::Own, replace)
}

const FILE: &str = r#"# Head office.

[tunnel]
name = "mpt0" # keep

[[paths]]   # the good one
name   = "fibre"
local  = "10.1.0.1"
remote = "10.1.0.2"
weight = 100   # Mbit/s, measured in May

[[paths]]
name = "lte"
local = "10.2.0.1"
remote = "10.2.0.2"
# weight = 10

# The end.
"#;

/// Saves a change of what `text` says, and returns the text afterwards.
fn saved(text: &str, change: impl FnOnce(&mut Running)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpt0.toml");
    std::fs::write(&file, text).unwrap();
    let mut running = Config::read(&file).unwrap().running();
    change(&mut running);
    save(&file, &running).unwrap();
    assert_eq!(Config::read(&file).unwrap().running(), running);
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 1, "no temporary file stays");
    std::fs::read_to_string(&file).unwrap()
}

#[test]
fn a_mistake_in_the_file_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpt0.toml");
    std::fs::write(&file, FILE).unwrap();
    let running = Config::read(&file).unwrap().running();
    std::fs::write(&file, FILE.replace("weight = 100", "weight = \"x\"")).unwrap();
    let error = save(&file, &running).unwrap_err();
    assert!(matches!(error, SaveError::Mistake(_)), "{error}");
    let told = format!("{:#}", anyhow::Error::from(error));
    assert_eq!(told.matches("mpt0.toml").count(), 1, "{told}");
}

#[test]
fn nothing_is_touched_when_nothing_differs() {
    assert_eq!(saved(FILE, |_| ()), FILE);
}

#[test]
fn a_value_changes_and_its_comment_stays() {
    let after = saved(FILE, |running| running.weights[0].1 = 60);
    assert_eq!(
        after,
        FILE.replace("weight = 100   # Mbit/s", "weight = 60   # Mbit/s")
    );
}

#[test]
fn an_absent_key_is_added_to_its_own_path() {
    let after = saved(FILE, |running| running.weights[1].1 = 7);
    assert_eq!(
        after,
        FILE.replace("\"10.2.0.2\"\n", "\"10.2.0.2\"\nweight = 7\n")
    );
}

#[test]
fn the_scheduler_stays_where_the_file_leaves_it_to_the_weights() {
    let plain = FILE.replace("weight = 100   # Mbit/s, measured in May\n", "");
    for (text, scheduler) in [(FILE, Policy::Adaptive), (&plain, Policy::Weighted)] {
        let after = saved(text, |running| running.scheduler = scheduler);
        let line = format!("scheduler = \"{}\"\n", scheduler.name());
        let head = "name = \"mpt0\" # keep\n";
        assert_eq!(after, text.replace(head, &format!("{head}{line}")));
    }
}

#[test]
fn a_scheduler_that_was_written_since_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpt0.toml");
    let written = FILE.replace("# keep\n", "# keep\nscheduler = \"flow\"\n");
    std::fs::write(&file, &written).unwrap();
    let mut running = Config::read(&file).unwrap().running();
    running.scheduler = Policy::Weighted;
    running.weights[0].1 = 60;
    assert_eq!(save(&file, &running).unwrap(), ["fibre weight = 60"]);
    assert_eq!(Config::read(&file).unwrap().tunnel.scheduler, Policy::Flow);
}

#[test]
fn an_absent_section_is_added() {
    let after = saved(FILE, |running| {
        running.reorder.window = 2048.into();
        running.reorder.max_buffer_delay = Duration::from_millis(1500).into();
        running.reorder.late = LatePolicy::Drop;
    });
    let section = "\n[reorder]\nwindow = 2048\nmax_buffer_delay = \"1500ms\"\nlate = \"drop\"\n";
    let head = "name = \"mpt0\" # keep\n";
    assert_eq!(after, FILE.replace(head, &format!("{head}{section}")));
}

#[test]
fn comments_after_the_last_key_of_the_tunnel_stay_with_it() {
    let head = "name = \"mpt0\" # keep\n";
    let section = "\n[reorder]\nwindow = 2048\n";
    let set = |text: &str| saved(text, |running| running.reorder.window = 2048.into());
    let key = "# routes = []   # what else is reached\n";
    for key in [key.to_owned(), format!("\n{key}"), format!("{key}\n{key}")] {
        // A comment directly above a header is that header's.
        for above in ["", "# The paths.\n"] {
            let text = FILE.replacen(head, &format!("{head}{key}"), 1);
            let text = text.replacen("[[paths]]", &format!("{above}[[paths]]"), 1);
            let after = text.replacen(&key, &format!("{key}{section}"), 1);
            assert_eq!(set(&text), after);
            let windows = text.replace('\n', "\r\n");
            assert_eq!(set(&windows), after.replace('\n', "\r\n"));
        }
    }
    let last = format!(
        "paths = [{{ name = \"a\", local = \"10.1.0.1\", remote = \"10.1.0.2\" }}]\n\n[tunnel]\n{head}{key}"
    );
    assert_eq!(set(&last), format!("{last}{section}"));
    let end = "\n# The end.\n";
    assert_eq!(
        set(&format!("{last}{end}")),
        format!("{last}{section}{end}")
    );
}

#[test]
fn block_sort_and_the_size_of_its_blocks_stay() {
    let text = "[reorder]\nmode = \"block\" # no added delay\n\n".to_owned() + FILE;
    let after = saved(&text, |running| running.weights[0].1 = 60);
    assert_eq!(after, text.replace("weight = 100   #", "weight = 60   #"));
    let after = saved(&text, |running| running.reorder.block = Some(64));
    let line = "mode = \"block\" # no added delay\n";
    assert_eq!(
        after,
        text.replace(line, &format!("{line}block_size = 64\n"))
    );
}

#[test]
fn a_file_that_has_another_mode_meanwhile_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpt0.toml");
    let texts = [
        FILE.to_owned(),
        "[reorder]\nmode = \"block\"\n\n".to_owned() + FILE,
    ];
    for (ran, edited) in [(0, 1), (1, 0)] {
        std::fs::write(&file, &texts[ran]).unwrap();
        let running = Config::read(&file).unwrap().running();
        std::fs::write(&file, &texts[edited]).unwrap();
        let error = save(&file, &running).unwrap_err().to_string();
        assert!(error.contains("another `mode`"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), texts[edited]);
    }
}

#[test]
fn other_ways_to_write_toml_stay_what_they_are() {
    let text = r#"reorder.window = 512 # small
paths = [
    { name = "fibre", local = "10.1.0.1", remote = "10.1.0.2" }, # first
    { name = "lte", local = "10.2.0.1", remote = "10.2.0.2", weight = 3 },
]
tunnel = { name = "mpt0" }
"#;
    let after = saved(text, |running| {
        running.reorder.window = Setting::Auto;
        running.reorder.late = LatePolicy::Drop;
        running.weights[0].1 = 5;
        running.weights[1].1 = 6;
    });
    insta::assert_snapshot!(after, @r#"
    reorder.window = "auto" # small
    reorder.late = "drop"
    paths = [
        { name = "fibre", local = "10.1.0.1", remote = "10.1.0.2", weight = 5 }, # first
        { name = "lte", local = "10.2.0.1", remote = "10.2.0.2", weight = 6 },
    ]
    tunnel = { name = "mpt0" }
    "#);
}

#[test]
fn a_section_is_added_wherever_the_tunnel_is_written() {
    let text = FILE.replace(
        "[tunnel]\nname = \"mpt0\" # keep\n",
        "tunnel.name = \"mpt0\"\n",
    );
    saved(&text, |running| running.reorder.window = 0.into());
}

#[test]
fn lines_that_end_as_on_windows_still_do() {
    let text = FILE.replace('\n', "\r\n");
    let after = saved(&text, |running| running.weights[0].1 = 60);
    assert_eq!(after, text.replace("weight = 100", "weight = 60"));
}

#[test]
fn mode_and_link_stay() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("real.toml");
    let link = folder.path().join("link.toml");
    std::fs::write(&file, FILE).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("real.toml", &link).unwrap();
    let mut running = Config::read(&link).unwrap().running();
    running.weights[0].1 = 1;
    let changed = save(&link, &running).unwrap();
    assert_eq!(changed, ["fibre weight = 1"]);
    assert!(link.is_symlink());
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn a_file_that_went_wrong_or_lost_the_path_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpt0.toml");
    std::fs::write(&file, FILE).unwrap();
    let mut running = Config::read(&file).unwrap().running();
    running.weights[0].1 = 1;
    for (from, to) in [("\"lte\"", "\"other\""), ("remote", "remoet")] {
        let edited = FILE.replace(from, to);
        std::fs::write(&file, &edited).unwrap();
        save(&file, &running).unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), edited);
    }
}
#[test]
fn for_others_nothing_is_replaced_but_what_a_running_tunnel_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mpt0.toml");
    std::fs::write(&file, FILE).unwrap();
    let user = format!("user = \"root\"\n{FILE}");
    let socket = format!("{FILE}\n[control]\nsocket = \"/etc/shadow\"\n");
    for wrong in [&user, &socket, &FILE.replace("10.1.0.2", "10.1.0.3"), "no"] {
        assert!(replace_settings(&file, wrong).is_err(), "{wrong}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), FILE);
    }
    let right = FILE.replace("weight = 100", "weight = 60");
    replace_settings(&file, &right).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), right);
}
