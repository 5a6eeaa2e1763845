//! A hub of two workers.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use net::traffic::{Iperf, ping};
use net::{Daemon, Namespace, wait_for};

use super::world::{
    World, all_reach_each_other_also_after_a_crash, await_peers, inner, peers, state_of,
};

/// Three clients that run, of a hub that is to have two workers: alice and carol are of one, bob is of the other.
fn of_two_workers() -> (World, Vec<Daemon>) {
    let world = World {
        workers: Some("2".to_owned()),
        ..World::new()
    };
    let clients = (0..3).map(|client| world.start_client(client)).collect();
    (world, clients)
}

#[test]
fn workers_share_the_peers_and_one_that_goes_under_traffic_costs_no_other() {
    let Some(_turn) = net::turn() else { return };
    let (world, clients) = of_two_workers();
    let mut hub = world.start_hub();
    all_reach_each_other_also_after_a_crash(&world, &mut hub);
    let tasks = format!("/proc/{}/task", hub.process().id());
    let tasks = std::fs::read_dir(tasks).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap()
    };
    let names: Vec<String> = tasks.map(name).collect();
    for line in ["mpt0-out\n", "mpt0-in\n", "mpt0-out1\n", "mpt0-in1\n"] {
        assert!(names.iter().any(|name| name == line), "{names:?}");
    }
    // From one worker's peer to the other's, and back.
    for iperf in [Iperf::tcp(&inner(1), 2), Iperf::tcp(&inner(1), 2).reverse()] {
        let run = iperf.run(&world.hosts[0], &world.hosts[1]);
        assert!(run.intervals_mbps.iter().all(|mbps| *mbps > 1.0), "{run:?}");
    }
    // What was sent is counted once, whoever did.
    let status = hub.status();
    let all = peers(&hub);
    let sum: u64 = all.iter().map(|peer| peer.tx_packets).sum();
    assert!(all.iter().all(|peer| peer.tx_packets > 0), "{all:?}");
    assert!(sum >= status.tunnel.tx_packets, "{sum} of {status:?}");
    assert_eq!(status.hub.unwrap().up, 3);

    let socket = hub.socket().display().to_string();
    std::thread::scope(|scope| {
        let flood = |from: usize, to: usize| {
            let mut command = world.hosts[from].command("ping");
            command.args(["-q", "-f", "-c", "20000", "-w", "6", &inner(to)]);
            command.stdout(Stdio::null());
            command.spawn().unwrap()
        };
        let mut floods = [flood(0, 1), flood(1, 2), flood(2, 1)];
        let calm = scope.spawn(|| ping(&world.hosts[0], &inner(2), 40, 50, ""));
        for round in 0..4 {
            for with_bob in [false, true] {
                std::thread::sleep(Duration::from_millis(200));
                let peers: &[usize] = if with_bob { &[0, 1, 2] } else { &[0, 2] };
                std::fs::write(hub.config(), world.hub_text(&socket, peers)).unwrap();
                hub.ctl(&["reload"]);
                assert_eq!(state_of(&hub, "bob").is_some(), with_bob, "round {round}");
            }
        }
        assert_eq!(calm.join().unwrap().received, 40);
        for flood in &mut floods {
            let _ = flood.kill();
            let _ = flood.wait();
        }
    });
    await_peers(&hub);
    for (from, to) in [(0, 1), (1, 2), (2, 1)] {
        let seen = ping(&world.hosts[from], &inner(to), 5, 20, "");
        assert_eq!(seen.received, 5, "{from} to {to}");
    }
    drop(clients);
}

/// How many packets from the interface came to another worker's queue than the owner's.
fn handed_over(hub: &Daemon) -> u64 {
    hub.status().hub.unwrap().handed_over
}

/// A hub of two workers that may make no programs for the kernel.
#[test]
fn without_a_program_workers_hand_packets_to_each_other_and_the_status_says_why() {
    let Some(_turn) = net::turn() else { return };
    let (world, clients) = of_two_workers();
    let alone = [
        "setpriv",
        "--bounding-set=-all,+net_admin",
        "--inh-caps=-all",
        "--",
    ];
    let hub = Daemon::start_by(&world.hub_host, &alone, "mpt0", |socket| {
        world.hub_text(socket, &[0, 1, 2])
    });
    await_peers(&hub);
    let told = hub.status().tunnel.offload;
    let why = "queues by flow (bpf(2): Operation not permitted";
    assert!(told.contains(why), "{told}");
    let log = hub.log();
    assert!(log.contains("the interface's queues follow flows"), "{log}");
    for (from, host) in world.hosts.iter().enumerate() {
        let seen = ping(host, &inner((from + 1) % 3), 5, 20, "");
        assert_eq!(seen.received, 5, "{from}");
    }
    // From alice to bob each packet comes from one worker's peer and goes to the other's.
    assert!(handed_over(&hub) > 0);
    drop(clients);
}

#[test]
fn what_goes_to_a_peer_comes_to_its_owners_queue_also_when_prefixes_move() {
    let Some(_turn) = net::turn() else { return };
    let (world, clients) = of_two_workers();
    let mut hub = world.start_hub();
    let told = hub.status().tunnel.offload;
    if !told.ends_with("queues by peer") {
        return net::skip(&told);
    }
    all_reach_each_other_also_after_a_crash(&world, &mut hub);
    let from_all = |to: &str, but: Option<usize>| {
        let hosts = world.hosts.iter().enumerate();
        let hosts = hosts.filter(|(host, _)| Some(*host) != but);
        // Each is another flow.
        for from in hosts.map(|(_, host)| host).chain([&world.hub_host; 4]) {
            assert_eq!(ping(from, to, 3, 20, "").received, 3, "{to}");
        }
    };
    for client in 0..3 {
        from_all(&inner(client), Some(client));
    }
    assert_eq!(handed_over(&hub), 0);

    // A prefix of bob's that becomes alice's, and one that lies in it.
    let set = |peer: &str, prefixes: &str| {
        let prefixes = format!("allowed_ips={prefixes}");
        hub.ctl(&["peer", "set", peer, &prefixes]);
    };
    world.hosts[1].run("ip address add 10.99.7.7/32 dev lo");
    set("bob", "10.99.0.3/32,10.99.7.0/24");
    from_all("10.99.7.7", Some(1));
    assert_eq!(handed_over(&hub), 0);
    world.hosts[1].run("ip address del 10.99.7.7/32 dev lo");
    world.hosts[0].run("ip address add 10.99.7.7/32 dev lo");
    set("bob", "10.99.0.3/32");
    set("alice", "10.99.0.2/32,10.99.7.0/28");
    from_all("10.99.7.7", Some(0));
    set("alice", "0.0.0.0/0");
    from_all("10.99.7.7", Some(0));
    from_all(&inner(0), Some(0));
    from_all(&inner(1), Some(1));
    // Somebody who is taken away and comes back.
    hub.ctl(&["peer", "set", "alice", "allowed_ips=10.99.0.2/32"]);
    let key = format!("public_key={}", world.keys[1].1);
    hub.ctl(&["peer", "remove", "bob"]);
    hub.ctl(&["peer", "add", "bob", &key, "allowed_ips=10.99.0.3/32"]);
    await_peers(&hub);
    from_all(&inner(1), Some(1));
    assert_eq!(handed_over(&hub), 0);

    // Another interface has the same program.
    world.hub_host.run("ip link delete mpt0");
    wait_for("the interface", Duration::from_secs(10), || {
        let status = hub.status();
        status.tunnel.missing.is_empty().then_some(())?;
        let up = world.hub_host.output("ip link show up dev mpt0").stdout;
        (!up.is_empty()).then_some(())
    });
    for client in 0..3 {
        from_all(&inner(client), Some(client));
    }
    assert_eq!(handed_over(&hub), 0);
    drop(clients);
}

/// Pings the hub ten times a second until it is killed.
fn ping_on(host: &Namespace) -> Child {
    let mut command = host.command("ping");
    command.args(["-q", "-i", "0.1", "10.99.0.1"]);
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// Bob is of the second worker, who is handed each call. Two hosts use his key, and both have something to send.
#[test]
fn one_key_on_two_hosts_is_with_who_called_last_and_changes_hands_no_faster_than_every_five_seconds()
 {
    let Some(_turn) = net::turn() else { return };
    let world = World {
        workers: Some("2".to_owned()),
        ..World::new()
    };
    let hub = world.start_hub();
    // Whose address the first of bob's paths leads to.
    let holder = || {
        let bob = peers(&hub).into_iter().find(|peer| peer.name == "bob")?;
        let remote = &bob.paths.first()?.remote;
        (0..2).find(|host| remote.starts_with(&format!("10.10.{host}.2:")))
    };
    let mut clients = vec![world.start_client(1)];
    let patience = Duration::from_secs(20);
    wait_for("bob's host to be bob", patience, || {
        holder().filter(|host| *host == 1)
    });
    let mut pings = vec![ping_on(&world.hosts[1])];
    clients.push(world.start_client_as(0, 1));
    pings.push(ping_on(&world.hosts[0]));
    wait_for("the one who called last to be bob", patience, || {
        holder().filter(|host| *host == 0)
    });
    let (mut last, mut since) = (0, Instant::now());
    let mut held = Vec::new();
    while held.len() < 2 {
        assert!(since.elapsed() < patience, "it stays with host {last}");
        if let Some(now) = holder()
            && now != last
        {
            held.push(since.elapsed());
            (last, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("it changed hands after {held:?}");
    // Less what it takes to see a change.
    let least = Duration::from_millis(4500);
    assert!(held.iter().all(|held| *held > least), "{held:?}");
    let log = hub.log();
    assert!(
        log.contains("peer bob") && log.contains("two hosts use its key"),
        "{log}"
    );
    for ping in &mut pings {
        let _ = ping.kill();
        let _ = ping.wait();
    }
    drop(clients);
}
