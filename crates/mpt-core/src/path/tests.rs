use super::*;
use crate::wire::probe::Echo;

fn path() -> Path {
    let config = PathConfig {
        remote: Some(SocketAddr::from(([10, 0, 0, 1], 4754))),
        weight: 1,
        keepalive: Duration::from_millis(200),
        dead_after: Duration::from_secs(1),
        metered: false,
        keeps_port: false,
    };
    Path::new(config, Time::ZERO)
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn message(number: u32, echo: Option<Echo>) -> Message {
    Message {
        reply_wanted: false,
        out_of_service: false,
        reports_wanted: false,
        resends: false,
        may_move: false,
        path: 0,
        number,
        session: 9,
        sent: at(0),
        tx_packets: 0,
        tx_bytes: 0,
        next_seq: crate::seq::Seq::FIRST,
        echo,
        rx_packets: 0,
        rx_bytes: 0,
        loss_ppm: 0,
    }
}

fn echo_of(number: u32) -> Option<Echo> {
    Some(Echo {
        number,
        session: 1,
        sent: at(0),
        received: at(0),
    })
}

/// Sends a probe at `sent_ms` and hears its echo at `heard_ms`.
fn answered(path: &mut Path, sent_ms: u64, heard_ms: u64) {
    let number = path.number_sent(at(sent_ms));
    let message = message(number, echo_of(number));
    let echo_sent = path.echoes.fresh(1, message.echo).unwrap();
    path.hear(at(heard_ms), &message);
    path.learn(at(heard_ms), at(heard_ms), &message, echo_sent);
}

#[test]
fn a_path_without_a_socket_waits_and_is_probed_anew_when_it_has_one() {
    let mut path = path();
    answered(&mut path, 0, 30);
    path.set_link(at(40), false);
    path.close(at(50));
    assert_eq!(path.state_at(at(51), true), (PathState::Waiting, None));
    assert!(!path.is_waited_for(at(51)) && !path.is_open());
    path.set_out_of_service(at(60), true);
    assert_eq!(path.state_at(at(61), true).0, PathState::AdminDown);
    path.set_out_of_service(at(70), false);
    path.set_link(at(80), true);
    assert_eq!(path.state_at(at(5_000), true).0, PathState::Waiting);
    path.open(at(5_000));
    assert_eq!(path.next_probe, at(5_000));
    assert_eq!(path.state_at(at(5_001), true).0, PathState::Probing);
    answered(&mut path, 5_000, 5_030);
    assert_eq!(path.state_at(at(5_031), true).0, PathState::Up);
}

#[test]
fn an_echo_brings_it_up_and_silence_takes_it_down() {
    let mut path = path();
    assert_eq!(path.state_at(at(0), true).0, PathState::Probing);
    answered(&mut path, 0, 30);
    assert_eq!(path.state_at(at(31), true).0, PathState::Up);
    assert_eq!(path.state_at(at(1029), true).0, PathState::Up);
    let no_answer = DownReason::NoAnswer(Duration::from_secs(1));
    assert_eq!(
        path.state_at(at(1030), true),
        (PathState::Down, Some(no_answer))
    );
}

#[test]
fn a_peer_that_sends_no_probes_leaves_it_probing() {
    assert_eq!(path().state_at(at(60_000), false).0, PathState::Probing);
}

#[test]
fn a_lost_link_counts_at_once_and_its_return_starts_anew() {
    let mut path = path();
    answered(&mut path, 0, 30);
    path.set_link(at(40), false);
    assert_eq!(path.state_at(at(40), true).1, Some(DownReason::LinkDown));
    assert!(!path.is_waited_for(at(40)));
    path.set_link(at(5000), true);
    assert_eq!(path.state_at(at(5000), true).0, PathState::Probing);
    assert_eq!(path.next_probe, at(5000));
}

#[test]
fn a_false_icmp_error_costs_a_round_trip_and_is_then_ignored() {
    let mut path = path();
    answered(&mut path, 0, 30);
    path.set_unreachable(at(40), Unreachable::Port);
    assert_eq!(path.state_at(at(40), true).0, PathState::Down);
    answered(&mut path, 40, 70);
    assert_eq!(path.state_at(at(70), true).0, PathState::Up);
    path.set_unreachable(at(80), Unreachable::Port);
    assert_eq!(path.state_at(at(80), true).0, PathState::Up);
}

#[test]
fn an_error_says_why_a_path_is_silent_though_one_was_false() {
    let mut path = path();
    answered(&mut path, 0, 30);
    path.set_unreachable(at(40), Unreachable::Port);
    answered(&mut path, 40, 70);
    path.set_unreachable(at(80), Unreachable::Prohibited);
    let later = at(5000);
    let (state, reason) = path.state_at(later, true);
    assert_eq!(state, PathState::Down);
    assert!(
        matches!(reason, Some(DownReason::NoAnswer(_))),
        "{reason:?}"
    );
    path.set_unreachable(later, Unreachable::Prohibited);
    let reason = DownReason::Unreachable(Unreachable::Prohibited);
    assert_eq!(path.state_at(later, true).1, Some(reason));
}

#[test]
fn an_echo_counts_once_and_only_of_what_was_sent() {
    let mut path = path();
    assert_eq!(path.echoes.fresh(1, echo_of(1)), None);
    answered(&mut path, 0, 30);
    assert_eq!(path.echoes.fresh(1, echo_of(1)), None);
    path.number_sent(at(100));
    assert_eq!(path.echoes.fresh(2, echo_of(2)), None);
    assert_eq!(path.echoes.fresh(1, echo_of(2)), Some(at(100)));
}

#[test]
fn a_message_without_proof_must_continue_those_before_it() {
    let mut path = path();
    assert!(path.echoes.continues(&message(1_000_000, None), false));
    path.hear(at(0), &message(10, None));
    // A sealed one need only be newer.
    for (number, continues, if_sealed) in [
        (9, false, false),
        (10, false, false),
        (11, true, true),
        (266, true, true),
        (267, false, true),
    ] {
        let message = message(number, None);
        assert_eq!(
            path.echoes.continues(&message, false),
            continues,
            "{number}"
        );
        assert_eq!(path.echoes.continues(&message, true), if_sealed, "{number}");
    }
}

#[test]
fn who_calls_from_another_port_of_the_peers_host_is_called_there_once_unless_that_is_configured() {
    let socket = |port| SocketAddr::from(([10, 0, 0, 1], port));
    let mut path = path();
    path.note_caller(socket(4754));
    path.note_caller(SocketAddr::from(([10, 0, 0, 2], 5000)));
    assert_eq!(path.elsewhere(socket(4754)), None);
    path.note_caller(socket(5000));
    assert_eq!(path.elsewhere(socket(4754)), Some(socket(5000)));
    assert_eq!(path.elsewhere(socket(4754)), None);
    path.note_caller(socket(5000));
    assert_eq!(path.elsewhere(socket(6000)), Some(socket(4754)));
}

#[test]
fn a_new_path_is_probed_four_times_as_often_until_its_jitter_is_known_or_two_seconds_are_over() {
    let keepalive = Duration::from_millis(200);
    let mut path = path();
    assert_eq!(path.interval(at(0), true), keepalive, "nobody answers yet");
    for probe in 0..16 {
        let now = 50 * (probe + 1);
        answered(&mut path, now - 20, now);
        assert_eq!(path.interval(at(now), true), keepalive / 4);
        path.idle.probed(at(now), 10_000_000, 0);
    }
    assert_eq!(path.interval(at(800), true), keepalive, "it is known");

    let mut busy = self::path();
    answered(&mut busy, 1960, 1980);
    assert_eq!(busy.interval(at(1999), true), keepalive / 4);
    assert_eq!(busy.interval(at(2000), true), keepalive);

    // No more are under way than four.
    let mut far = self::path();
    answered(&mut far, 10, 610);
    assert!(far.interval(at(610), true) >= Duration::from_millis(150));
    let mut metered = self::path();
    metered.config.metered = true;
    answered(&mut metered, 10, 30);
    assert_eq!(metered.interval(at(30), true), keepalive);
}
