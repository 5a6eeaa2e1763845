//! Paths that go on, and worse: losses, delays, large packets swallowed; and a clock that is set.

use std::time::Duration;

use net::{Bench, Fault, Files, Shape, Uplinks};

fn usual(delay: u64) -> Shape {
    Shape::mbps(20.0).delay_ms(delay).buffer(100)
}

/// A path gets worse without dying.
#[test]
fn a_path_gets_worse() {
    let Some(_turn) = net::turn() else { return };
    let net = Uplinks::with_shapes([&usual(10), &usual(25)]);
    let mut bench = Bench::new(net.tunnel(&Files::sealed()));
    std::thread::sleep(Duration::from_secs(3));
    bench.run(
        &Fault::new("a path loses 3 % of its packets")
            .lasts_ms(6000)
            .stalls_at_most_ms(200),
        |pair| pair.net.reshape(0, &usual(10).loss(3.0)),
        |pair| pair.net.reshape(0, &usual(10)),
    );
    bench.run(
        &Fault::new("a path's delay jumps by 300 ms")
            .lasts_ms(5000)
            .stalls_at_most_ms(800),
        |pair| pair.net.reshape(0, &usual(310)),
        |pair| pair.net.reshape(0, &usual(10)),
    );
    bench.run(
        &Fault::new("a path swallows large packets")
            .lasts_ms(3000)
            .stalls_at_most_ms(200),
        |pair| {
            pair.net.swallow("iifname fibre meta length > 1300");
            pair.net.swallow("oifname fibre meta length > 1300");
        },
        |pair| pair.net.let_through(),
    );
    if net::in_lab() {
        // The lab's clock is its own; this machine's is not to be touched.
        bench.run(
            &Fault::new("the clock is set back by a day")
                .lasts_ms(5000)
                .stalls_at_most_ms(200),
            |_| set_clock("yesterday"),
            |_| set_clock("tomorrow"),
        );
    }
    bench.finish("worse");
}

fn set_clock(when: &str) {
    let output = net::process::output(std::process::Command::new("date").args(["-s", when]));
    assert!(output.status.success(), "{output:?}");
}
