//! A few cases of the papers' experiments, as `benches/papers/run` measures all of them: 30 s of CPU.

use papers::{Outcome, Paper};

/// Runs one case of a paper.
fn measured(paper: &str, case: &str) -> Outcome {
    let paper = Paper::named(paper).expect("a paper of this name");
    let outcome = paper.run(case).expect("a case of this name");
    println!("{case}: {outcome:.2?}");
    outcome
}

/// The Reorder Density paper's method over netem gives the simulation's values within 5 %.
#[test]
fn measure_agrees_with_the_simulation() {
    let Some(_turn) = net::turn() else { return };
    let measured = measured("reorder_density", "measure/1.0");
    // tests/vectors/jitter-golden.json, normal, 1 ms.
    assert!((measured["md"] / 6.5326 - 1.0).abs() < 0.05);
    assert!((measured["entropy"] / 3.5257 - 1.0).abs() < 0.05);
    assert_eq!(measured["received"], 65_535.0);
}

/// A window that is too small for the paths lets through W·MSS·8/2d, as in Table I of MPT-GRE's paper.
#[test]
fn a_window_too_small_limits_as_in_table_1() {
    let Some(_turn) = net::turn() else { return };
    let mbps = measured("mpt_gre", "paper/100/30")["mbps"];
    assert!((mbps / 17.9 - 1.0).abs() < 0.25, "{mbps}");
}

/// A delay that falls by hundreds of milliseconds twice a second costs a plain TCP four fifths of a link;
/// behind the tunnel's window it notices nothing.
#[test]
fn order_restored_spares_tcp_its_needless_retransmissions() {
    let Some(_turn) = net::turn() else { return };
    let exposed = measured("tcp_out_of_order", "alpha/1.0/reno+sack/off");
    let restored = measured("tcp_out_of_order", "alpha/1.0/reno+sack/on");
    assert!(exposed["fast"] > 0.02 * exposed["segments"]);
    assert!(exposed["mbps"] < 0.4 * exposed["limit"]);
    assert!(restored["fast"] <= 0.002 * restored["segments"]);
    assert!(restored["mbps"] >= 0.97 * restored["limit"]);
}
