//! The pairs of links that people have most, in the weather that they have ([`crate::weather`]), and what people do
//! over them.
//!
//! A minute of the weather is the same for whoever stands in it: the tunnel, each link alone, and the kernel's MPTCP.
//! What is measured has its time in that minute, so that each meets the same. Where only some of it is asked for, the
//! rest of the minute passes in silence, which costs nothing in the lab.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use mpt_sim::campaign::{Forecast, Weather};
use serde::{Deserialize, Serialize};

use crate::profile::download::Over;
use crate::profile::measure::numbers;
use crate::quic;
use crate::settings::Side;
use crate::stream::{Stream, percentile};
use crate::traffic::Iperf;
use crate::transfer::{Page, Source, Transport};
use crate::uplinks::{Files, SERVER, UPLINKS, Uplinks};
use crate::weather::Who;

/// Of the better link alone, the tunnel is to reach this share in every measure: whoever adds a link wants
/// no less than before.
pub const OF_BEST: f64 = 0.95;
/// When each measure begins in the minute, and how long it lasts, in seconds. The first flow stands long enough to meet
/// a satellite's change each 15 s; all end before the minute does. Chosen for a job of about two minutes.
const CUBIC_S: (u64, u32) = (0, 15);
const BBR_S: (u64, u32) = (18, 10);
const BOTH_S: (u64, u32) = (31, 10);
/// When pages begin, in seconds.
const PAGES_S: [u64; 3] = [44, 49, 54];
/// Seconds.
const CALL_S: u64 = 58;
/// Where the call's datagrams go.
const CALL_PORT: u16 = 6000;
/// What a datagram that never arrived counts for in the call's delays, in ms: more than any that did.
const LOST_MS: f64 = 60_000.0;
/// 30 objects over 6 connections, as many as browsers open to a host; 1.5 MB together, a small page of today.
const PAGE: Page = Page {
    objects: 30,
    object_bytes: 50_000,
    connections: 6,
};

/// Two links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Short.
    pub name: &'static str,
    /// What they are; a link's place among the two is the seed of its weather.
    pub weathers: [Weather; 2],
}

/// The twelve pairs.
pub const PAIRS: [Pair; 12] = [
    pair("starlink+lte-good", Weather::Starlink, Weather::LteGood),
    pair("starlink+lte-bad", Weather::Starlink, Weather::LteBad),
    pair("fibre+starlink", Weather::Fibre, Weather::Starlink),
    pair("dsl+lte-bloated", Weather::Dsl, Weather::LteBloated),
    pair("lte+lte", Weather::LteGood, Weather::LteMedium),
    pair("highway+highway", Weather::Highway, Weather::Highway),
    pair("wifi+lte", Weather::Wifi, Weather::LteMedium),
    pair("cgnat+cgnat", Weather::Cgnat, Weather::Cgnat),
    pair("policer+dsl", Weather::Policer, Weather::Dsl),
    pair("throttled+lte-bad", Weather::Throttled, Weather::LteBad),
    pair("pppoe+lte-good", Weather::Pppoe, Weather::LteGood),
    pair("dsl+cable", Weather::Dsl, Weather::Cable),
];

const fn pair(name: &'static str, one: Weather, other: Weather) -> Pair {
    let weathers = [one, other];
    Pair { name, weathers }
}

impl Pair {
    /// The pair of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PAIRS.into_iter().find(|pair| pair.name == name)
    }

    /// The minute of both links.
    #[must_use]
    pub fn forecasts(&self) -> [Forecast; 2] {
        [0, 1].map(|link| self.weathers[link].forecast(link as u64 + 1))
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// A download by CUBIC.
    Cubic,
    /// A download by BBR.
    Bbr,
    /// An upload beside a download.
    Both,
    /// A page.
    Page,
    /// A call toward the client all along, beside whatever else is measured.
    Call,
    /// A download by QUIC, in CUBIC's time.
    Quic,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Cubic,
        Self::Bbr,
        Self::Both,
        Self::Page,
        Self::Call,
        Self::Quic,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Both => "both",
            Self::Page => "page",
            Self::Call => "call",
            Self::Quic => "quic",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.name() == text)
            .ok_or_else(|| format!("no measure {text}: cubic, bbr, both, page, call, quic"))
    }
}

/// The minutes that these measures take: a download by QUIC stands at CUBIC's place in one of its own.
#[must_use]
pub fn minutes(measures: &[Measure]) -> Vec<Vec<Measure>> {
    let of = |quic: bool| {
        let in_it = |one: &Measure| (*one == Measure::Quic) == quic;
        measures.iter().copied().filter(in_it).collect::<Vec<_>>()
    };
    let all = [false, true].map(of).into_iter();
    all.filter(|minute| !minute.is_empty()).collect()
}

/// What came of a minute; what was not asked for, or is not there, is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stood {
    /// Mbit/s of a download by CUBIC.
    pub cubic_mbps: Option<f64>,
    /// Mbit/s of a download by BBR.
    pub bbr_mbps: Option<f64>,
    /// Mbit/s down and up, at once.
    pub both_mbps: Option<[f64; 2]>,
    /// Milliseconds of a page, the median of three.
    pub page_ms: Option<f64>,
    /// Of a call: lost of 1000, 99th percentile of the delay in ms (a lost one took the whole minute),
    /// longest silence in ms from the call's beginning to its end.
    pub call: Option<[f64; 3]>,
    /// Mbit/s of a download by QUIC.
    #[serde(default)]
    pub quic_mbps: Option<f64>,
    /// Of the tunnel: every number of the server's status, by its place.
    #[serde(default)]
    pub server: BTreeMap<String, f64>,
    /// The same of the client's.
    #[serde(default)]
    pub client: BTreeMap<String, f64>,
}

impl Stood {
    /// This minute's values, and of those that it has not another one's.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        Self {
            cubic_mbps: self.cubic_mbps.or(other.cubic_mbps),
            bbr_mbps: self.bbr_mbps.or(other.bbr_mbps),
            both_mbps: self.both_mbps.or(other.both_mbps),
            page_ms: self.page_ms.or(other.page_ms),
            call: self.call.or(other.call),
            quic_mbps: self.quic_mbps.or(other.quic_mbps),
            server: self.server,
            client: self.client,
        }
    }
}

/// Stands in the weather of a pair for a minute.
///
/// # Panics
/// When a connection breaks.
#[must_use]
pub fn stand(pair: &Pair, over: Over, measures: &[Measure]) -> Stood {
    let forecasts = pair.forecasts();
    let net = Uplinks::with_weather(&forecasts);
    for host in [&net.client, &net.server] {
        host.widen_windows();
        // TCP's, also where MPTCP may be had.
        host.sysctl("net.mptcp.enabled", "1");
    }
    match over {
        Over::Tunnel => {
            let tunnel = net.tunnel(&Files::sealed());
            let net = &tunnel.net;
            let passing = net.let_pass(&forecasts, Who::Tunnel);
            let place = Place {
                net,
                server: Side::B.inner_v4(),
                client: Side::A.inner_v4(),
                transport: Transport::Tcp,
            };
            let mut stood = place.stand(measures);
            drop(passing);
            stood.server = numbers(&tunnel.server.ctl(&["status"]));
            stood.client = numbers(&tunnel.client.ctl(&["status"]));
            stood
        }
        Over::Link(link) => {
            net.remove_default_route(1 - link);
            net.forward_port(link, CALL_PORT);
            let _passing = net.let_pass(&forecasts, Who::Bare);
            let place = Place {
                net: &net,
                server: SERVER,
                client: UPLINKS[link].public,
                transport: Transport::Tcp,
            };
            place.stand(measures)
        }
        Over::Mptcp => {
            allow_subflows(&net);
            let _passing = net.let_pass(&forecasts, Who::Bare);
            let place = Place {
                net: &net,
                server: SERVER,
                client: UPLINKS[0].public,
                transport: Transport::Mptcp,
            };
            place.stand(measures)
        }
    }
}

/// Lets the client's MPTCP connections use both uplinks.
fn allow_subflows(net: &Uplinks) {
    for host in [&net.client, &net.server] {
        host.run("ip mptcp limits set subflows 4 add_addr_accepted 4");
    }
    let second = UPLINKS[1];
    net.client.run(&format!(
        "ip mptcp endpoint add {}.10 dev {} subflow",
        second.network, second.device
    ));
}

/// From where to where, and by what.
struct Place<'a> {
    net: &'a Uplinks,
    server: &'a str,
    client: &'a str,
    transport: Transport,
}

impl Place<'_> {
    fn stand(&self, measures: &[Measure]) -> Stood {
        let (start, mut stood) = (Instant::now(), Stood::default());
        let is_tcp = self.transport == Transport::Tcp;
        let wants = |one: Measure| measures.contains(&one);
        let (client, server) = (&self.net.client, &self.net.server);
        let call = (is_tcp && wants(Measure::Call)).then(|| {
            let time = Duration::from_secs(CALL_S);
            Stream::voice(self.client, CALL_PORT, time).start(server, client)
        });
        let wait = |second: u64| {
            let at = Duration::from_secs(second);
            std::thread::sleep(at.saturating_sub(start.elapsed()));
        };
        let bulk = |(from, seconds): (u64, u32), congestion| {
            wait(from);
            let source = Source::open(server, self.server, self.transport, congestion);
            mean(&source.each_second_mbps(client, seconds))
        };
        stood.cubic_mbps = wants(Measure::Cubic).then(|| bulk(CUBIC_S, "cubic"));
        stood.quic_mbps = (is_tcp && wants(Measure::Quic)).then(|| {
            let (from, seconds) = CUBIC_S;
            wait(from);
            mean(&quic::each_second_mbps(
                server,
                client,
                self.server,
                seconds,
            ))
        });
        stood.bbr_mbps = wants(Measure::Bbr).then(|| bulk(BBR_S, "bbr"));
        stood.both_mbps = (is_tcp && wants(Measure::Both)).then(|| {
            wait(BOTH_S.0);
            let flow = || Iperf::tcp(self.server, BOTH_S.1).congestion("cubic");
            let flows = [flow().reverse(), flow()].map(|flow| flow.start(client, server));
            flows.map(|flow| mean(&flow.finish().intervals_mbps))
        });
        stood.page_ms = wants(Measure::Page).then(|| {
            let pages = PAGES_S.map(|at| {
                wait(at);
                let source = Source::open(server, self.server, self.transport, "cubic");
                source.page(client, PAGE).as_secs_f64() * 1e3
            });
            percentile(&pages, 0.5)
        });
        stood.call = call.map(|call| {
            let call = call.finish();
            let lost = call.lost() as f64 * 1e3 / call.sent.max(1) as f64;
            let mut delays = call.delays_ms(Duration::ZERO);
            delays.extend(std::iter::repeat_n(LOST_MS, call.lost() as usize));
            [
                lost,
                percentile(&delays, 0.99),
                call.longest_silence().as_secs_f64() * 1e3,
            ]
        });
        stood
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quic_stands_in_a_minute_of_its_own() {
        let [call, cubic, quic] = [Measure::Call, Measure::Cubic, Measure::Quic];
        assert_eq!(
            minutes(&[cubic, call, quic]),
            [vec![cubic, call], vec![quic]]
        );
        assert_eq!(minutes(&[quic]), [[quic]]);
        assert_eq!(minutes(&[cubic]), [[cubic]]);
    }
}
