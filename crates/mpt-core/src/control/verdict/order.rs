//! Whether what arrives is complete, in order and in time.

use super::paths::up;
use super::{Code, Finding, counted, lately};
use crate::control::units::{bits_per_second, percent, time_us};
use crate::control::{PathStatus, ReorderMode, Status};

/// A path with less than this carries no data worth sizing a window for, but probes, in bits a second.
pub(crate) const NO_TRAFFIC_BPS: u64 = 100_000;
/// Delay difference below which packets on different paths hardly overtake each other.
const SIGNIFICANT_DELAY_US: u64 = 1000;
/// Share of gaps from which their end by timeout or overflow is worth a word.
const NOTABLE_GAPS: f64 = 0.01;
/// Recent gaps below which a share means nothing.
const ENOUGH_GAPS: u64 = 20;
/// Share of packets that never came, or came late, that flows feel: see `paths::NOTABLE_LOSS`.
const NOTABLE_LOSS: f64 = 0.01;
/// Fewer packets than this may be lost by accident, in a burst or when a path goes down.
const ENOUGH_LOST: u64 = 10;
/// Share of needless copies from which they cost something: a twentieth of a metered link.
const NOTABLE_COPIES: f64 = 0.05;
/// Fewer copies than this cost nothing.
const ENOUGH_COPIES: u64 = 50;
/// A window that is proposed is at least this.
const LEAST_PROPOSAL: u64 = 1024;
/// The largest window that the daemon takes.
const LARGEST_WINDOW: u64 = 32_768;

pub(super) fn findings(status: &Status) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(window(status));
    found.extend(hold(status).or_else(|| packets_late(status)));
    found.extend(packets_lost(status));
    found.extend(needless_resends(status));
    found.extend(duplicates(status));
    found
}

/// The paths that data arrive on: only there is anything overtaken.
fn carrying(paths: &[PathStatus]) -> impl Iterator<Item = &PathStatus> {
    up(paths).filter(|path| path.rx_bps >= NO_TRAFFIC_BPS)
}

/// The greatest difference of delay between paths that carry data, where it is known.
fn delay_difference_us(paths: &[PathStatus]) -> Option<u64> {
    let delays: Vec<u64> = carrying(paths)
        .filter_map(|path| path.rx_delay_us)
        .collect();
    let difference = delays.iter().max()? - delays.iter().min()?;
    (delays.len() > 1).then_some(difference)
}

/// At most one word on the window, so that one cause does not speak twice.
fn window(status: &Status) -> Option<Finding> {
    if status.reorder.window == 0 {
        return nothing_held(status);
    }
    window_too_small(status).or_else(|| window_full(status))
}

fn nothing_held(status: &Status) -> Option<Finding> {
    let difference = delay_difference_us(&status.paths).unwrap_or(0);
    let needed = status.reorder.window_needed.unwrap_or(0);
    let several = carrying(&status.paths).count() > 1;
    // Where a flow stays on its path, and nothing is numbered, nothing of it is overtaken.
    let overtaken = status.recent.gaps_seen > 0 || status.tunnel.scheduler != "flow";
    // What differs by less than a block may be put in order within one.
    let harmless = status.reorder.block_size.map_or(1, u64::from);
    let matters = several && overtaken && (difference >= SIGNIFICANT_DELAY_US || needed > harmless);
    let (what, remedy) = match status.reorder.mode {
        ReorderMode::Window => (
            "Reordering is off",
            "`mpt-ctl reorder set window=auto` puts them in order.",
        ),
        ReorderMode::Block => (
            "Block sort holds nothing",
            "mode = \"window\" in [reorder] puts them in order.",
        ),
    };
    let difference = time_us(difference);
    matters.then(|| {
        Finding::degraded(
            Code::ReorderingOff,
            format!(
                "{what}, yet the paths differ by {difference}: packets leave the tunnel out of order."
            ),
            remedy,
        )
    })
}

fn window_too_small(status: &Status) -> Option<Finding> {
    let have = status.reorder.window;
    if status.reorder.window_auto && u64::from(have) < status.reorder.window_limit {
        return None;
    }
    let needed = status.reorder.window_needed;
    let needed = needed.filter(|needed| *needed > have.into())?;
    let difference = time_us(delay_difference_us(&status.paths).unwrap_or(0));
    let rates = carrying(&status.paths).map(|path| path.rx_bps);
    let rate = bits_per_second(rates.fold(0, u64::saturating_add));
    let remedy = if status.reorder.window_auto {
        "Memory allows no more, so take the slowest path out of service.".to_owned()
    } else if needed <= LARGEST_WINDOW {
        let proposal = proposed_window(needed);
        format!("`mpt-ctl reorder set window={proposal}` would do.")
    } else {
        format!("The largest is {LARGEST_WINDOW}, so take the slowest path out of service.")
    };
    Some(Finding::degraded(
        Code::WindowTooSmall,
        format!(
            "The reorder window of {have} is too small for paths that differ by {difference} at \
             {rate}: it needs {needed}."
        ),
        remedy,
    ))
}

fn window_full(status: &Status) -> Option<Finding> {
    let have = u64::from(status.reorder.window);
    let share = share_of_gaps(status, status.recent.gaps_overflowed)?;
    (have < LARGEST_WINDOW && !status.reorder.window_auto).then(|| {
        Finding::degraded(
            Code::WindowFull,
            format!(
                "{} of gaps ended {} because the reorder window of {have} was full.",
                percent(share),
                lately(status)
            ),
            format!(
                "`mpt-ctl reorder set window={}` holds more.",
                proposed_window(have * 2)
            ),
        )
    })
}

/// A window that leaves room above what is needed: the next power of two that the daemon takes.
fn proposed_window(needed: u64) -> u64 {
    let needed = needed.clamp(LEAST_PROPOSAL, LARGEST_WINDOW);
    needed.next_power_of_two()
}

/// The share of recent gaps that ended in one way, where it is worth a word.
fn share_of_gaps(status: &Status, ended: u64) -> Option<f64> {
    let seen = status.recent.gaps_seen;
    let share = ended as f64 / seen.max(1) as f64;
    (seen >= ENOUGH_GAPS && share >= NOTABLE_GAPS).then_some(share)
}

/// A configured hold below what the paths differ by.
fn hold(status: &Status) -> Option<Finding> {
    let reorder = &status.reorder;
    let hold = reorder.max_buffer_delay_us;
    let difference = delay_difference_us(&status.paths)?;
    let nothing_waits = reorder.window == 0 || status.recent.gaps_seen == 0;
    let fits = reorder.max_buffer_delay_auto || nothing_waits || difference < hold;
    // A quarter more leaves room for jitter; whole milliseconds read better.
    let enough_ms = difference.saturating_add(difference / 4).div_ceil(1000);
    (!fits).then(|| {
        Finding::degraded(
            Code::HoldTooShort,
            format!(
                "max_buffer_delay of {} is too short for paths that differ by {}.",
                time_us(hold),
                time_us(difference)
            ),
            format!("`mpt-ctl reorder set max_buffer_delay={enough_ms}ms` would do."),
        )
    })
}

/// Packets that came after they were given up: jitter, or another hold than the paths need. Where nothing is held all that
/// was overtaken counts as late.
fn packets_late(status: &Status) -> Option<Finding> {
    if status.reorder.window == 0 {
        return None;
    }
    let recent = &status.recent;
    let share = share(recent.late, recent.rx_packets, ENOUGH_LOST, NOTABLE_LOSS)?;
    let remedy = match status.reorder.max_buffer_delay_auto {
        true => "A path's delay varies more than it did: the hold follows within seconds.",
        false => "Raise it with `mpt-ctl reorder set max_buffer_delay=auto`.",
    };
    Some(Finding::degraded(
        Code::PacketsLate,
        format!(
            "{} of the packets that came {} came after they had been given up, with \
             max_buffer_delay = {}.",
            percent(share),
            lately(status),
            time_us(status.reorder.max_buffer_delay_us)
        ),
        remedy,
    ))
}

/// What the reorder window gave up and what did not come later either.
fn packets_lost(status: &Status) -> Option<Finding> {
    let recent = &status.recent;
    let inferred = recent.gaps_inferred_lost;
    let given_up = inferred
        .saturating_add(recent.gaps_timed_out)
        .saturating_add(recent.gaps_overflowed);
    let lost = given_up.saturating_sub(recent.late);
    let all = recent.rx_packets.saturating_add(lost);
    let share = share(lost, all, ENOUGH_LOST, NOTABLE_LOSS)?;
    let stalls = recent.gaps_timed_out >= lost / 2 && !status.reorder.max_buffer_delay_auto;
    let remedy = match stalls {
        true => {
            "`mpt-ctl paths` at the peer shows which path loses them; a shorter max_buffer_delay makes \
             the stalls shorter."
        }
        false => "`mpt-ctl paths` at the peer shows which path loses them.",
    };
    Some(Finding::degraded(
        Code::PacketsLost,
        format!(
            "{} of what the peer sent {} was lost for good.",
            percent(share),
            lately(status)
        ),
        remedy,
    ))
}

fn needless_resends(status: &Status) -> Option<Finding> {
    let recent = &status.recent;
    let share = share(
        recent.spurious,
        recent.tx_packets,
        ENOUGH_COPIES,
        NOTABLE_COPIES,
    )?;
    Some(Finding::degraded(
        Code::NeedlessResends,
        format!(
            "{} ({} of those sent) went again {} though nothing was lost.",
            counted(recent.spurious, "packet"),
            percent(share),
            lately(status)
        ),
        "A path's delay varies by more than was measured; mode = \"off\" in [recovery] sends nothing again.",
    ))
}

/// Copies that nobody here asked for. With the redundant scheduler they are the point.
fn duplicates(status: &Status) -> Option<Finding> {
    if status.tunnel.scheduler == "redundant" {
        return None;
    }
    let recent = &status.recent;
    let copies = recent.dropped(crate::control::drops::DropReason::Duplicate);
    let share = share(copies, recent.rx_packets, ENOUGH_COPIES, NOTABLE_COPIES)?;
    Some(Finding::note(
        Code::Duplicates,
        format!(
            "{} ({}) arrived twice {}: the peer sends them again or over several paths, or the network \
             doubles them.",
            counted(copies, "packet"),
            percent(share),
            lately(status)
        ),
        "",
    ))
}

/// The share that `part` is of `whole`, where it is worth a word.
fn share(part: u64, whole: u64, enough: u64, notable: f64) -> Option<f64> {
    let share = part as f64 / whole.max(1) as f64;
    (part >= enough && share >= notable).then_some(share)
}
