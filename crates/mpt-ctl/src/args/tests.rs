use super::*;

fn parse(line: &str) -> Result<(Cli, Task), String> {
    let words = std::iter::once("mpt-ctl")
        .chain(line.split_whitespace())
        .map(OsString::from);
    Cli::parse_words(words).map_err(|error| error.to_string())
}

fn request(line: &str) -> Request {
    match parse(line).unwrap().1 {
        Task::Ask(request) => request,
        Task::Measure(measure) => panic!("{measure:?}"),
        Task::Trace(command) => panic!("{line} is {command:?}"),
        Task::History(command) => panic!("{line} is {command:?}"),
        #[cfg(feature = "top")]
        Task::Top => panic!("{line} is top"),
        Task::Key(command) => panic!("{line} is {command:?}"),
        Task::New(command) => panic!("{line} is {command:?}"),
    }
}

/// The first line of the error, which is the one that says what is wrong.
fn error(line: &str) -> String {
    parse(line).unwrap_err().lines().next().unwrap().into()
}

#[test]
fn the_command_line_is_consistent() {
    crate::command().debug_assert();
}

#[test]
fn a_mistake_in_a_setting_shows_the_usage_of_its_command_alone() {
    for (line, usage) in [
        (
            "reorder set window=-1",
            "Usage: mpt-ctl reorder set [OPTIONS] <KEY=VALUE>...",
        ),
        (
            "path set a weight=0",
            "Usage: mpt-ctl path set [OPTIONS] <NAME> <KEY=VALUE>...",
        ),
        (
            "new --server 203.0.113.7:1",
            "Usage: mpt-ctl new [OPTIONS] --server <ADDRESS>",
        ),
    ] {
        let said = parse(line).unwrap_err();
        assert!(said.contains(usage), "{said}");
    }
}

/// Whether an option has lines of its own in a help, and is not only spoken of.
fn lists(help: &str, option: &str) -> bool {
    let head = |line: &str| {
        let own = line.trim_start();
        // The texts of options stand further to the right.
        line.len() - own.len() <= "      ".len() && own.starts_with('-') && own.contains(option)
    };
    help.lines().any(head)
}

#[test]
fn help_lists_the_options_that_the_command_takes_and_no_others() {
    let all = [
        ("status", ""),
        ("paths", ""),
        ("peers", ""),
        ("peer show", "bob"),
        (
            "peer add",
            "bob public_key=hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo= allowed_ips=10.0.0.1/32",
        ),
        ("peer set", "bob rate_limit=none"),
        ("peer remove", "bob"),
        ("reorder", ""),
        ("reorder set", "window=5"),
        ("trace", "lte"),
        ("history", ""),
        #[cfg(feature = "top")]
        ("top", ""),
        ("log", ""),
        ("path up", "lte"),
        ("path down", "lte"),
        ("path set", "lte weight=4"),
        ("reload", ""),
        ("save", ""),
        ("new", "--server 203.0.113.7 --client-interfaces eth0,wwan0"),
        ("genkey", ""),
        ("pubkey", ""),
        ("genpsk", ""),
        ("measure send", "10.0.0.1"),
        ("measure receive", ""),
        ("measure stamp send", "10.0.0.1"),
        ("measure read", "x.pcap"),
    ];
    for (command, arguments) in all {
        let line = format!("{command} {arguments}");
        assert!(parse(&line).is_ok(), "{line}: {}", error(&line));
        let help = parse(&format!("{command} --help")).unwrap_err();
        for option in ["--socket x", "--tunnel x", "--watch", "--json"] {
            let takes = parse(&format!("{line} {option}")).is_ok();
            let (name, _) = option.split_once(' ').unwrap_or((option, ""));
            assert_eq!(lists(&help, name), takes, "{command} {option}: {help}");
        }
    }
    let help = parse("path --help").unwrap_err();
    assert!(!lists(&help, "--watch") && lists(&help, "--socket"));
}

#[cfg(not(feature = "top"))]
#[test]
fn what_was_left_out_is_said() {
    assert!(error("top").contains("was built without top"));
}

#[test]
fn each_command_becomes_its_request() {
    assert_eq!(request("status"), Request::Status);
    assert_eq!(request("paths"), Request::Paths);
    assert_eq!(request("reorder"), Request::Reorder);
    assert_eq!(
        request("path up lte"),
        Request::PathUp { name: "lte".into() }
    );
    assert_eq!(
        request("path down lte"),
        Request::PathDown { name: "lte".into() }
    );
    assert_eq!(
        request("path set lte weight=40"),
        Request::PathSet {
            name: "lte".into(),
            weight: Some(40)
        }
    );
    assert_eq!(request("reload"), Request::Reload);
    assert_eq!(request("log"), Request::Log { level: None });
    let level = Some(LogLevel::Debug);
    assert_eq!(request("log debug"), Request::Log { level });
    assert_eq!(request("save"), Request::Save);
}

#[test]
fn keys_ask_no_daemon() {
    for (word, command) in [
        ("genkey", KeyCommand::Generate),
        ("pubkey", KeyCommand::Public),
        ("genpsk", KeyCommand::GeneratePreshared),
    ] {
        let task = parse(word).unwrap().1;
        assert!(matches!(task, Task::Key(asked) if asked == command));
        assert!(error(&format!("--json {word}")).contains("leave --json out"));
        assert!(error(&format!("--tunnel mpt1 {word}")).contains("no --tunnel"));
    }
    assert!(error("genkey --watch").contains("--watch goes with"));
}

#[test]
fn reorder_settings_that_are_not_named_stay_as_they_are() {
    assert_eq!(
        request("reorder set max_buffer_delay=1500us"),
        Request::ReorderSet {
            window: None,
            max_buffer_delay_us: Some(1500.into()),
            late: None
        }
    );
    assert_eq!(
        request("reorder set window=0 late=drop"),
        Request::ReorderSet {
            window: Some(0.into()),
            max_buffer_delay_us: None,
            late: Some(LatePolicy::Drop)
        }
    );
    assert_eq!(
        request("reorder set window=auto max_buffer_delay=auto"),
        Request::ReorderSet {
            window: Some(Setting::Auto),
            max_buffer_delay_us: Some(Setting::Auto),
            late: None
        }
    );
}

#[test]
fn watch_takes_an_optional_number_on_either_side_of_the_command() {
    let interval = |line: &str| parse(line).unwrap().0.watch;
    assert_eq!(interval("status"), None);
    assert_eq!(interval("status --watch"), Some(Duration::from_secs(2)));
    assert_eq!(interval("--watch status"), Some(Duration::from_secs(2)));
    assert_eq!(
        interval("--watch 0.5 status"),
        Some(Duration::from_millis(500))
    );
    assert_eq!(interval("paths -w 10"), Some(Duration::from_secs(10)));
    assert_eq!(
        interval("reorder --watch --json"),
        Some(Duration::from_secs(2))
    );
}

#[cfg(feature = "top")]
#[test]
fn mistakes_say_what_would_have_been_right() {
    insta::assert_snapshot!(
        [
            "path set lte wieght=3",
            "path set lte weight",
            "path set lte weight=0",
            "path set lte weight=1 weight=2",
            "reorder set windw=3",
            "reorder set window=-1",
            "reorder set max_buffer_delay=300",
            "reorder set max_buffer_delay=2h",
            "reorder set late=maybe",
            "path up lte --watch",
            "log loud",
            "history --svg --json",
            "top --json",
            "status --watch 0",
            "status --tunnel ../x",
            "measure send 10.0.0.1 --size 80",
            "measure send 10.0.0.1 --from ::1",
            "measure send 10.0.0.1 --plot x.svg",
            "measure send 10.0.0.1 --rate 0",
            "measure send 10.0.0.1:x",
            "measure receive --idle 5",
            "measure receive --tunnel mpt0",
        ]
        .map(|line| format!("{line}\n    {}", error(line)))
        .join("\n"),
        @r#"
        path set lte wieght=3
            error: unknown setting "wieght"; known here: weight=N
        path set lte weight
            error: weight=: give a whole number from 1 to 1000000; `mpt-ctl path down` takes a path out of service
        path set lte weight=0
            error: weight=0: give a whole number from 1 to 1000000; `mpt-ctl path down` takes a path out of service
        path set lte weight=1 weight=2
            error: weight is given twice
        reorder set windw=3
            error: unknown setting "windw"; known here: window=N, max_buffer_delay=D, late=deliver|drop
        reorder set window=-1
            error: window=-1: give a whole number of packets from 0 to 32768, or auto
        reorder set max_buffer_delay=300
            error: max_buffer_delay=300: give a time with its unit, such as 300ms, 1ms to 10s, or auto
        reorder set max_buffer_delay=2h
            error: max_buffer_delay=2h: give a time with its unit, such as 300ms, 1ms to 10s, or auto
        reorder set late=maybe
            error: late=maybe: give deliver or drop
        path up lte --watch
            error: --watch goes with status, paths, peers, peer show, reorder and top
        log loud
            error: invalid value 'loud' for '[LEVEL]'
        history --svg --json
            error: --json and --svg both go to the standard output; name a FILE after --svg
        top --json
            error: top is for people; `mpt-ctl --json --watch status` is a line each time, for scripts
        status --watch 0
            error: invalid value '0' for '--watch [<SECONDS>]': give a number of seconds from 0.1 to 86400
        status --tunnel ../x
            error: invalid value '../x' for '--tunnel <NAME>': a tunnel's name is that of its interface, such as mpt0
        measure send 10.0.0.1 --size 80
            error: --size 80: a frame is at least 82 bytes here, for the headers and what is measured
        measure send 10.0.0.1 --from ::1
            error: --from ::1 and 10.0.0.1 are of different families
        measure send 10.0.0.1 --plot x.svg
            error: the following required arguments were not provided:
        measure send 10.0.0.1 --rate 0
            error: invalid value '0' for '--rate <PPS>': 0 is not in 1..=10000000
        measure send 10.0.0.1:x
            error: invalid value '10.0.0.1:x' for '<HOST[:PORT]>': "x" is no port, a number up to 65535; give an address or name, with a port such as 192.0.2.1:5236 or [2001:db8::1]:5236
        measure receive --idle 5
            error: invalid value '5' for '--idle <TIME>': give a time with its unit, such as 10s, at most 1day
        measure receive --tunnel mpt0
            error: measure asks no daemon: no --socket, no --tunnel
        "#
    );
}
