//! Daemons that end and start again.

use net::{Fault, Files};

use super::{bench, can_run};

/// Either end is stopped, killed and started; nobody has to do anything at the other.
#[test]
fn ends_are_restarted_and_killed() {
    let Some(_turn) = net::turn() else { return };
    if !can_run() {
        return;
    }
    let mut bench = bench(&Files::sealed());
    bench.run(
        &Fault::new("the server's daemon is stopped, and started")
            .client("no-path-up", "")
            .lasts_ms(2500)
            .back_within_ms(4000),
        |pair| pair.server.terminate(),
        |pair| pair.server.start_again(&pair.net.server),
    );
    bench.run(
        &Fault::new("the server's daemon is killed, and started at once").back_within_ms(4000),
        |pair| pair.server.crash_and_restart(&pair.net.server),
        |_| {},
    );
    bench.run(
        &Fault::new("the client's daemon is killed, and started at once").back_within_ms(4000),
        |pair| pair.client.crash_and_restart(&pair.net.client),
        |_| {},
    );
    bench.run(
        &Fault::new("the client's daemon is killed and stays away")
            .server("no-path-up", "")
            .lasts_ms(2500)
            .back_within_ms(4000),
        |pair| pair.client.process().kill(),
        |pair| pair.client.start_again(&pair.net.client),
    );
    bench.run(
        &Fault::new("both are killed, and started").back_within_ms(5000),
        |pair| {
            pair.client.process().kill();
            pair.server.process().kill();
        },
        |pair| {
            pair.client.start_again(&pair.net.client);
            pair.server.start_again(&pair.net.server);
        },
    );
    bench.run(
        &Fault::new("both are started again at once, the client first").back_within_ms(5000),
        |pair| {
            pair.client.terminate();
            pair.server.terminate();
        },
        |pair| {
            pair.client.start_again(&pair.net.client);
            pair.server.start_again(&pair.net.server);
        },
    );
    bench.finish("ends");
}
