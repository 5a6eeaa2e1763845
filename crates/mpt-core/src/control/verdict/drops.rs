//! What is dropped, and why: one rule for each reason.

use super::paths::is_one_missing;
use super::{Code, Finding, Level, counted, handshake, lately};
use crate::control::Status;
use crate::control::drops::DropReason;

/// What one drop reason means to an operator.
struct Rule {
    code: Code,
    /// What happened to "N packets in the last 10 s".
    text: &'static str,
    remedy: &'static str,
    weight: Weight,
}

/// How much of it is how bad.
enum Weight {
    /// Anybody can raise the count: a note from one in a thousand on, unless a path is missing.
    Strangers,
    /// Packets of this tunnel are lost: degraded from one in so many on.
    Loses { one_in: u64 },
    /// It goes with the work, or something else says it: a note from one in so many on.
    Note { one_in: u64 },
}

pub(super) fn findings(status: &Status) -> Vec<Finding> {
    let mut rules: Vec<(Rule, u64)> = Vec::new();
    for (rule, count) in DropReason::ALL.iter().filter_map(|&why| {
        let count = status.recent.dropped(why);
        Some((rule(why)?, count)).filter(|(_, count)| *count > 0)
    }) {
        // Reasons that mean the same to an operator speak with one voice.
        match rules.iter_mut().find(|(known, _)| known.code == rule.code) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => rules.push((rule, count)),
        }
    }
    let told = rules.iter();
    let told = told.filter(|(rule, _)| !handshake::explains(status, rule.code));
    told.filter_map(|(rule, count)| told_of(status, rule, *count))
        .collect()
}

fn told_of(status: &Status, rule: &Rule, count: u64) -> Option<Finding> {
    let recent = &status.recent;
    let packets = recent.tx_packets.max(recent.rx_packets);
    let (one_in, level) = match rule.weight {
        Weight::Strangers if is_one_missing(status) => (1000, Level::Degraded),
        Weight::Strangers => (1000, Level::Ok),
        Weight::Loses { one_in } => (one_in, Level::Degraded),
        Weight::Note { one_in } => (one_in, Level::Ok),
    };
    (count >= packets / one_in).then(|| {
        let happened = match count {
            1 => rule.text.replace("were ", "was "),
            _ => rule.text.to_owned(),
        };
        let seconds = lately(status);
        let text = format!(
            "I{} {} {happened}.",
            &seconds[1..],
            counted(count, "packet")
        );
        Finding::at(level, rule.code, text, rule.remedy)
    })
}

/// The rule for a reason; none where other rules look at it.
fn rule(why: DropReason) -> Option<Rule> {
    let (code, text, remedy, weight) = match why {
        // One flow that fills a path of 2 Mbit/s is slowed down by 2 % of drops; more than 5 % is a
        // sender that does not slow down.
        DropReason::QueueAqm | DropReason::QueueFull => (
            Code::Saturated,
            "did not fit what the paths carry, and were dropped",
            "Something sends more than the paths carry, and does not slow down.",
            Weight::Loses { one_in: 20 },
        ),
        DropReason::TunQueue => (
            Code::HostTooFast,
            "came faster from this host than mpt-tund reads them, and were dropped",
            "This machine is too slow for what it sends.",
            Weight::Loses { one_in: 100 },
        ),
        DropReason::PeerShare => (
            Code::HostTooFast,
            "were more than this hub handles, of peers that send more than their share, and were dropped",
            "This machine is too slow for what its peers send.",
            Weight::Loses { one_in: 100 },
        ),
        DropReason::SendFull | DropReason::SendQueue => (
            Code::SendDrops,
            "were dropped by this host's own queues on the way out",
            "`tc -s qdisc` shows where; a longer queue there, or a lower rate, helps.",
            Weight::Loses { one_in: 100 },
        ),
        DropReason::SendError => (
            Code::SendRefused,
            "were refused by the kernel on sending",
            "No route, no address, or a firewall of this host.",
            Weight::Loses { one_in: 1000 },
        ),
        DropReason::NoPath => (
            Code::NoPathLately,
            "were dropped because no path was up",
            "",
            Weight::Note { one_in: 1000 },
        ),
        DropReason::ClassPaths => (
            Code::ClassPaths,
            "were dropped because no path was up that their class may use",
            "`policy = \"sparing\"` in [[classes]] wants it so; with another policy they go over the other paths.",
            Weight::Note { one_in: 1000 },
        ),
        DropReason::NoPeer | DropReason::PeerAway => (
            Code::NoPeer,
            "were dropped because they go to a peer that is not there, or to nobody's address",
            "`mpt-ctl peers` shows who is there, and `allowed_ips` in [[peers]] say whose an address is.",
            Weight::Note { one_in: 1000 },
        ),
        DropReason::NotAllowed => (
            Code::NotAllowed,
            "came from inner addresses that are not their peer's, and were dropped",
            "`mpt-ctl peer show NAME` counts them (not_allowed); what a peer may send from stands in its `allowed_ips`.",
            Weight::Note { one_in: 1000 },
        ),
        DropReason::RateLimit => (
            Code::RateLimited,
            "were beyond the rate limit of their peer, and were dropped",
            "That is what `rate_limit` in [[peers]] is for; `mpt-ctl peer show NAME` counts them.",
            Weight::Note { one_in: 100 },
        ),
        DropReason::NoKeys => (
            Code::NoKeys,
            "were dropped because no keys were agreed with the peer",
            "",
            Weight::Note { one_in: 1000 },
        ),
        DropReason::NotIp | DropReason::BadOffload => (
            Code::BadPackets,
            "from this host were not IP, and were dropped",
            "",
            Weight::Note { one_in: 1000 },
        ),
        DropReason::Stranger => (
            Code::Strangers,
            "came from addresses that are no path's remote",
            "If they are the peer's, its addresses or ports differ from the configuration (NAT?).",
            Weight::Strangers,
        ),
        DropReason::BadKey => (
            Code::WrongKey,
            "carried no GRE key or a wrong one",
            "`key` in [tunnel] must be the same at both ends.",
            Weight::Strangers,
        ),
        DropReason::BadGre => (
            Code::NotGre,
            "were not GRE",
            "Something else sends to the tunnel's port.",
            Weight::Strangers,
        ),
        DropReason::UnknownProtocol | DropReason::BadControl => (
            Code::UnknownProtocol,
            "carried neither IP nor control messages of this version",
            "Is the other end an MPT tunnel with the same settings?",
            Weight::Strangers,
        ),
        DropReason::BadChecksum | DropReason::BadInner => (
            Code::Damaged,
            "arrived damaged",
            "Something on the way changes packets.",
            Weight::Strangers,
        ),
        DropReason::Truncated => (
            Code::Truncated,
            "were longer than this tunnel takes",
            "The peer's mtu in [tunnel] is greater than this end's.",
            Weight::Strangers,
        ),
        DropReason::NotSealed => (
            Code::NotSealed,
            "were not sealed, as this tunnel's are",
            "If they are the peer's, it has no [crypto] section.",
            Weight::Strangers,
        ),
        DropReason::UnknownSession | DropReason::Forged | DropReason::Replayed => (
            Code::NotOpened,
            "were sealed, and not for this session",
            "They are old copies, or somebody's who has not the keys.",
            Weight::Strangers,
        ),
        DropReason::BadHandshake | DropReason::HandshakeLimit => (
            Code::BadHandshakes,
            "began handshakes that are not the peer's, or too many",
            "If they are the peer's, the keys do not match.",
            Weight::Strangers,
        ),
        DropReason::OtherPath => (
            Code::OtherPath,
            "were made for another path than the one that they came by",
            "Does one of the peer's paths lead to the port of another? If not, somebody on the way puts them there.",
            Weight::Strangers,
        ),
        DropReason::StaleControl => (
            Code::StaleControl,
            "were probes or reports of another session",
            "Does one of the peer's paths lead to the port of another, or do two daemons use its keys?",
            Weight::Strangers,
        ),
        DropReason::Jump | DropReason::Stale => (
            Code::SequenceJumps,
            "had sequence numbers far from the last",
            "Is the peer's tunnel used by two daemons?",
            Weight::Strangers,
        ),
        DropReason::Ecn => (
            Code::CongestionMarks,
            "were dropped for a congestion mark that their senders do not know",
            "A queue on the way marks instead of dropping; nothing is wrong here.",
            Weight::Note { one_in: 100 },
        ),
        DropReason::TunWrite => (
            Code::InterfaceRefuses,
            "were refused by the tunnel's interface",
            "Is it up?",
            Weight::Loses { one_in: 1000 },
        ),
        // `machine`, `order`: they know more than the count.
        DropReason::TooBig | DropReason::Duplicate | DropReason::Late => return None,
    };
    Some(Rule {
        code,
        text,
        remedy,
        weight,
    })
}
