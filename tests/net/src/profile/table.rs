//! The pairs of links.
//!
//! Rates are low where nothing depends on them: the lab pays by the packet. Delays are one way.

use crate::profile::Bound::{Best, Ideal, Sum};
use crate::profile::{Bound, Dip, Line, Profile};
use crate::shape::Shape;

/// A link of this many Mbit/s and milliseconds.
fn link(mbps: f64, delay_ms: u64) -> Shape {
    Shape::mbps(mbps).delay_ms(delay_ms)
}

fn pair(name: &'static str, first: Shape, second: Shape, bounds: &[Bound]) -> Profile {
    lines(name, Line::new(first), Line::new(second), bounds)
}

fn lines(name: &'static str, first: Line, second: Line, bounds: &[Bound]) -> Profile {
    let mut all = vec![Best(0.95)];
    all.extend_from_slice(bounds);
    Profile {
        name,
        lines: [first, second],
        bounds: all,
    }
}

/// The profile of this name.
#[must_use]
pub fn named(name: &str) -> Option<Profile> {
    all().into_iter().find(|profile| profile.name == name)
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Profile> {
    [clean(), jittery(), lossy(), mixed(), changing(), queues()].concat()
}

/// Nothing but rates and delays.
fn clean() -> Vec<Profile> {
    let near = || link(30.0, 20);
    vec![
        pair("equal", near(), near(), &[Sum(0.92)]),
        pair("delay-35", near(), link(30.0, 35), &[Sum(0.92)]),
        pair("delay-70", near(), link(30.0, 70), &[Sum(0.92)]),
        pair("delay-150", near(), link(30.0, 150), &[Sum(0.92)]),
        pair("delay-300", near(), link(30.0, 300), &[Sum(0.85)]),
        pair("rates-5-1", link(50.0, 20), link(10.0, 30), &[Sum(0.92)]),
        pair(
            "rates-1-5-far",
            link(10.0, 10),
            link(50.0, 60),
            &[Sum(0.92)],
        ),
        pair("rates-12-1", link(60.0, 15), link(5.0, 40), &[]),
    ]
}

/// Normal jitter; netem keeps the packets of a link in order.
fn jittery() -> Vec<Profile> {
    let both = |deviation| {
        let shape = |delay| link(30.0, delay).normal_jitter_ms(deviation);
        [shape(40), shape(60)]
    };
    let [a, b] = both(3);
    let [c, d] = both(10);
    let [e, f] = both(25);
    vec![
        pair("jitter-3", a, b, &[Sum(0.92)]),
        pair("jitter-10", c, d, &[Sum(0.92)]),
        pair("jitter-25", e, f, &[Sum(0.85)]),
    ]
}

/// Loss on both links.
fn lossy() -> Vec<Profile> {
    let both = |name, percent| {
        let shape = link(50.0, 20).loss(percent);
        pair(name, shape.clone(), shape, &[Ideal(0.95), Sum(0.85)])
    };
    let apart = [20, 45].map(|delay| link(30.0, delay).loss(1.0));
    let bursts = link(50.0, 20).burst_loss(1.0, 5.0);
    let [near, far] = apart;
    vec![
        both("loss-0.2", 0.2),
        both("loss-0.5", 0.5),
        both("loss-1", 1.0),
        both("loss-2", 2.0),
        both("loss-3", 3.0),
        pair("loss-1-apart", near, far, &[Ideal(0.95), Sum(0.85)]),
        pair(
            "loss-one",
            link(50.0, 15),
            link(30.0, 25).loss(1.0),
            &[Ideal(0.95)],
        ),
        pair("bursts", bursts.clone(), bursts, &[Ideal(0.95), Sum(0.75)]),
    ]
}

/// What people have.
fn mixed() -> Vec<Profile> {
    let fibre = || link(100.0, 8);
    let lte = || link(30.0, 40).normal_jitter_ms(8).loss(0.5);
    let satellite = link(20.0, 280).normal_jitter_ms(5).loss(0.2).buffer(1000);
    // 50 Mbit/s down and 10 up; a radio that is fast, near and lively.
    let dsl = Line::new(link(50.0, 12)).back(link(10.0, 12));
    let wifi = link(40.0, 5).normal_jitter_ms(4).loss(0.3);
    let lte_like = [(40.0, 30, 5), (25.0, 45, 8)]
        .map(|(rate, delay, jitter)| link(rate, delay).normal_jitter_ms(jitter).loss(0.5));
    let [first, second] = lte_like;
    vec![
        pair("fibre-lte", fibre(), lte(), &[Sum(0.9)]),
        pair(
            "fibre300-lte",
            link(300.0, 8),
            lte(),
            &[Best(1.0), Sum(0.9)],
        ),
        pair("two-lte", first, second, &[Sum(0.8)]),
        pair("lte-satellite", lte(), satellite, &[]),
        lines("dsl-wifi", dsl, Line::new(wifi), &[]),
    ]
}

/// What does not stay as it was.
fn changing() -> Vec<Profile> {
    let dip = Dip {
        to: 0.2,
        from: 0.35,
        until: 0.65,
    };
    let line = |delay| Line::new(link(30.0, delay));
    vec![
        lines("dip", line(30).dip(dip), line(20), &[]),
        lines("competing", line(20), line(30).shared(), &[]),
    ]
}

/// A queue that is too short, and one that is too long.
fn queues() -> Vec<Profile> {
    let both = |packets| [20, 30].map(|delay| link(30.0, delay).buffer(packets));
    let ([a, b], [c, d]) = (both(20), both(2000));
    vec![
        pair("shallow", a, b, &[]),
        pair("bloated", c, d, &[Sum(0.92)]),
        // Of queues and delays alike, one link has all of them shallow, the other bloated.
        pair(
            "shallow-bloated",
            link(30.0, 20).buffer(20),
            link(30.0, 40).buffer(2000),
            &[],
        ),
    ]
}
