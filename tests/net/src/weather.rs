//! The weather of mpt-sim over [`Uplinks`]: links as people have them, changing as time goes on.
//!
//! What a link is and what happens to it is drawn by [`mpt_sim::campaign::Weather`]: one table for the simulation and
//! for the lab, and the same seed is the same minute in both. Here a link's settings become a [`Shape`], what changes
//! becomes `tc qdisc change` at its time, and what lies outside the link becomes rules of nftables and a policer.
//!
//! Three things are not as in the simulation. netem counts a queue in packets. A policer stands behind its link, not
//! before it. And a rebinding translator forgets only what it translates: connections that it does not ([`Who::Bare`])
//! are spared.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpt_sim::campaign::{Forecast, What};
use mpt_sim::delay::Delay;
use mpt_sim::link::{LinkConfig, Policer, QueueLimit};
use mpt_sim::loss::Loss;

use crate::namespace::Namespace;
use crate::process;
use crate::shape::Shape;
use crate::uplinks::{UPLINKS, Uplinks};

/// Bytes of a full-sized packet: what a queue of bytes holds is counted in these.
const FULL_PACKET_BYTES: usize = 1514;
/// Packets that a queue holds at least. A queue of bytes holds more acknowledgements than full packets, netem's does
/// not; so many are under way over ERRANT's bad cell, 3.3 Mbit/s down, while 60 ms pass.
const LEAST_PACKETS: usize = 16;
/// Bytes: no packet of IPv4 over Ethernet is longer, and so no link with this MTU drops one.
const ETHERNET_MTU: usize = 1500;
/// Bytes of the headers of IPv4 and TCP.
const TCP_HEADERS_BYTES: usize = 40;
/// Bytes that a throttled 5-tuple has at once: a full packet, or none would ever pass.
const THROTTLED_BURST_BYTES: usize = 1500;
/// A translator's first port after a rebinding; each takes the next hundred.
const REBOUND_PORT: u16 = 20_000;

/// Who uses the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A tunnel, whose UDP mappings are rebound.
    Tunnel,
    /// Connections of their own, which a translator does not forget.
    Bare,
}

/// What happens to links, under way. Dropped, it ends, and the links stay as they are.
#[derive(Debug)]
pub struct Passing {
    over: Option<mpsc::Sender<()>>,
    player: Option<JoinHandle<()>>,
}

/// One direction of a link as netem has it.
#[must_use]
pub fn shape(link: &LinkConfig) -> Shape {
    let mbps = link.rate_bps.unwrap_or(0) as f64 / 1e6;
    let packets_in = |time_ns: u64| mbps * time_ns as f64 / 8e3 / FULL_PACKET_BYTES as f64;
    let waiting = match link.queue {
        QueueLimit::Packets(packets) => packets,
        QueueLimit::Bytes(bytes) => (bytes / FULL_PACKET_BYTES).max(LEAST_PACKETS),
    };
    let of_ns = Duration::from_nanos;
    let shape = Shape::mbps(mbps).buffer(waiting as u32);
    let shape = match link.delay {
        Delay::Constant { ns } => shape.delay(of_ns(ns)),
        Delay::Normal { mean_ns, sd_ns } => shape.delay(of_ns(mean_ns)).normal_jitter(of_ns(sd_ns)),
        Delay::Gathered {
            least_ns,
            from_ns,
            to_ns,
        } => {
            // What is gathered waits in netem's queue too, but not in the link's.
            let gathered = packets_in(to_ns) as u32;
            let slots = format!("slot {}us {}us", from_ns / 1000, to_ns / 1000);
            let shape = shape.buffer(waiting as u32 + gathered);
            shape.delay(of_ns(least_ns)).netem(&slots)
        }
        Delay::Uniform { .. }
        | Delay::NetemUniform { .. }
        | Delay::Exponential { .. }
        | Delay::ExponentialCut { .. }
        | Delay::Switching(_) => panic!("no weather has such delays: {:?}", link.delay),
    };
    match link.loss {
        _ if !link.up => shape.loss(100.0),
        Loss::None => shape,
        Loss::GilbertElliott { to_good, .. } => {
            shape.burst_loss(100.0 * link.loss.mean(), 1.0 / to_good)
        }
        Loss::Independent { .. } | Loss::Bursts { .. } => {
            panic!("no weather has such losses: {:?}", link.loss)
        }
    }
}

impl Uplinks {
    /// Two uplinks that are as forecast before anything happens to them. What comes to the client is direction 0.
    ///
    /// # Panics
    /// As [`Uplinks::new`].
    #[must_use]
    pub fn with_weather(forecasts: &[Forecast; 2]) -> Self {
        let net = Self::new();
        for (number, forecast) in forecasts.iter().enumerate() {
            let [down, up] = &forecast.path.links;
            for (link, host, device, to) in [
                (down, net.middle.name(), UPLINKS[number].path, "oifname"),
                (up, net.routers[number].name(), "wan", "iifname"),
            ] {
                shape(link).apply(host, device);
                let here = format!("{to} {}", UPLINKS[number].path);
                if link.mtu < ETHERNET_MTU {
                    net.rule(&format!("{here} meta length > {} drop", link.mtu));
                    // As routers on such lines do for who does not look himself.
                    let mss = link.mtu - TCP_HEADERS_BYTES;
                    net.rule(&format!(
                        "{here} tcp flags syn tcp option maxseg size set {mss}"
                    ));
                }
            }
            if let Some(policer) = down.policer {
                police(&net.routers[number], "wan", policer);
            }
            assert!(up.policer.is_none(), "no weather polices what goes up");
            // Which ports of the client have been used, to tell a 5-tuple that is dead from new ones.
            let path = UPLINKS[number].path;
            net.middle.run(&format!(
                "nft add set ip faults old-{path} {{ type inet_service ; size 1000 ; flags dynamic ; }}"
            ));
            net.middle
                .run(&format!("nft add chain ip faults {path} {{ }}"));
            net.rule(&format!("jump {path}"));
            for (device, port) in [("iifname", "sport"), ("oifname", "dport")] {
                net.middle.run(&format!(
                    "nft add rule ip faults {path} {device} {path} meta l4proto udp update @old-{path} {{ udp {port} }}"
                ));
            }
        }
        net
    }

    /// Lets what is forecast happen, from now on.
    #[must_use]
    pub fn let_pass(&self, forecasts: &[Forecast; 2], who: Who) -> Passing {
        let mut players: Vec<Player> = forecasts
            .iter()
            .enumerate()
            .map(|(number, forecast)| Player::new(self, number, forecast))
            .collect();
        let mut changes: Vec<(Duration, usize, What)> = (0..forecasts.len())
            .flat_map(|number| {
                let changes = forecasts[number].changes.iter();
                changes.map(move |&(at, what)| (at, number, what))
            })
            .filter(|(_, _, what)| who == Who::Tunnel || *what != What::Rebind)
            .collect();
        changes.sort_by_key(|change| change.0);
        let (over, is_over) = mpsc::channel::<()>();
        let start = Instant::now();
        let player = std::thread::spawn(move || {
            for (at, number, what) in changes {
                let wait = at.saturating_sub(start.elapsed());
                if is_over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                players[number].play(what);
            }
        });
        Passing {
            over: Some(over),
            player: Some(player),
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.over = None;
        if let Some(player) = self.player.take() {
            let played = player.join();
            assert!(
                played.is_ok() || std::thread::panicking(),
                "the weather did not pass"
            );
        }
    }
}

/// Does to one uplink what is forecast.
struct Player {
    number: usize,
    middle: String,
    router: String,
    first: [LinkConfig; 2],
    links: [LinkConfig; 2],
    /// Down and up.
    tc: [Tc; 2],
    rebound: u16,
}

impl Player {
    fn new(net: &Uplinks, number: usize, forecast: &Forecast) -> Self {
        let (middle, router) = (&net.middle, &net.routers[number]);
        Self {
            number,
            middle: middle.name().to_owned(),
            router: router.name().to_owned(),
            first: forecast.path.links.clone(),
            links: forecast.path.links.clone(),
            tc: [
                Tc::start(middle, UPLINKS[number].path),
                Tc::start(router, "wan"),
            ],
            rebound: REBOUND_PORT,
        }
    }

    fn play(&mut self, what: What) {
        match what {
            What::Rebind => self.rebind(),
            What::Tuple(share) => self.end_tuples(share),
            What::Rate(_) | What::DelayMs(_) | What::Up(_) | What::Restore => {
                for ((link, first), tc) in self.links.iter_mut().zip(&self.first).zip(&mut self.tc)
                {
                    what.apply(link, first);
                    tc.shape(&shape(link));
                }
            }
        }
    }

    /// The router forgets its mappings and gives others. It forgets when it loses its address: nothing else is there
    /// in a kernel whose mappings cannot be listed.
    fn rebind(&mut self) {
        let uplink = &UPLINKS[self.number];
        let (public, first) = (uplink.public, self.rebound);
        let last = first + 99;
        self.rebound += 100;
        for line in [
            "nft flush chain ip nat out".to_owned(),
            format!(
                "nft add rule ip nat out oifname wan ip protocol udp masquerade to :{first}-{last}"
            ),
            "nft add rule ip nat out oifname wan masquerade".to_owned(),
            format!("ip addr del {public}/29 dev wan"),
            format!("ip addr add {public}/29 dev wan"),
            format!("ip route add default via {}", uplink.gateway),
        ] {
            run_in(&self.router, &line);
        }
    }

    /// What was sent from the client's ports so far, and to them, has this share of the rate from now on.
    fn end_tuples(&self, share: f64) {
        let path = UPLINKS[self.number].path;
        run_in(&self.middle, &format!("nft flush chain ip faults {path}"));
        let ends = [("iifname", "sport"), ("oifname", "dport")];
        for ((device, port), link) in ends.into_iter().zip(self.first.iter().rev()) {
            let bytes_s = (link.rate_bps.unwrap_or(0) as f64 * share / 8.0).round();
            let rate = match bytes_s > 0.0 {
                true => format!(
                    "limit rate over {bytes_s} bytes/second burst {THROTTLED_BURST_BYTES} bytes"
                ),
                false => String::new(),
            };
            run_in(
                &self.middle,
                &format!(
                    "nft add rule ip faults {path} {device} {path} udp {port} @old-{path} {rate} drop"
                ),
            );
        }
    }
}

/// A token bucket without a queue for what `device` takes in.
fn police(host: &Namespace, device: &str, policer: Policer) {
    host.run(&format!("tc qdisc add dev {device} handle ffff: ingress"));
    host.run(&format!(
        "tc filter add dev {device} parent ffff: matchall action police rate {}bit burst {} conform-exceed drop/ok",
        policer.rate_bps, policer.burst_bytes
    ));
}

fn run_in(host: &str, line: &str) {
    let mut words = line.split_whitespace();
    let mut command = Namespace::command_in(host, words.next().unwrap_or_default());
    process::run(command.args(words));
}

/// A `tc` that takes one line after the other: a link may change ten times a second.
struct Tc {
    device: String,
    child: Child,
    lines: Option<ChildStdin>,
}

impl Tc {
    fn start(host: &Namespace, device: &str) -> Self {
        let mut command: Command = host.command("tc");
        let mut child = command
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("tc");
        Self {
            device: device.to_owned(),
            lines: child.stdin.take(),
            child,
        }
    }

    /// Changes the netem that is there: what is queued stays.
    fn shape(&mut self, shape: &Shape) {
        let (device, netem) = (&self.device, shape.netem_words());
        let lines = self.lines.as_mut().expect("open until the end");
        writeln!(lines, "qdisc change dev {device} root {netem}").expect("tc takes lines");
    }
}

impl Drop for Tc {
    fn drop(&mut self) {
        // It ends with its lines, and ends with the first that it could not do.
        self.lines = None;
        let ended = self.child.wait().expect("a child of ours");
        assert!(
            ended.success() || std::thread::panicking(),
            "tc: a change failed"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpt_sim::campaign::Weather;

    #[test]
    fn a_satellite_has_the_numbers_of_the_simulation() {
        let link = Weather::Starlink.forecast(1).path.links[1].clone();
        let words = shape(&link).netem_words();
        assert!(
            words.contains(" 6700us distribution normal loss gemodel "),
            "{words}"
        );
        assert!(words.ends_with(" rate 15000kbit"), "{words}");
        let gone = shape(&LinkConfig { up: false, ..link }).netem_words();
        assert!(gone.contains(" loss 100%"), "{gone}");
    }

    #[test]
    fn every_weather_can_be_played() {
        for weather in Weather::ALL {
            let forecast = weather.forecast(1);
            for mut link in forecast.path.links.clone() {
                for (_, what) in &forecast.changes {
                    what.apply(&mut link, &forecast.path.links[0]);
                    assert!(shape(&link).netem_words().starts_with("netem limit "));
                }
            }
        }
    }

    #[test]
    fn a_queue_of_bytes_is_one_of_packets() {
        let link = &Weather::LteBad.forecast(1).path.links;
        // 300 ms of 3.3 Mbit/s are 82 full packets; of 0.15 Mbit/s not 4.
        let delay = |link: &LinkConfig| shape(link).base_delay().as_secs_f64();
        let limit = |link: &LinkConfig, waiting: f64, mbps: f64| {
            let under_way = (delay(link) * mbps * 1e6 / 8.0 / 1514.0).ceil();
            format!("netem limit {} ", waiting + under_way)
        };
        for (link, waiting, mbps) in [(&link[0], 81.0, 3.3), (&link[1], 16.0, 0.15)] {
            let words = shape(link).netem_words();
            assert!(words.starts_with(&limit(link, waiting, mbps)), "{words}");
        }
    }
}
