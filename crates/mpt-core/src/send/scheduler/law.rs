//! Every parameter of the sender's law: how the rate of a path is found, and which path takes a packet.
//!
//! docs/rate-control.md has the same table beside the equations; a test compares the two. What random links say
//! when a parameter is halved or doubled, the campaign prints: `--vary NAME`.

use std::time::Duration;

/// A parameter's value, to be shown and changed as a number.
pub trait Value: Copy {
    /// The value: durations in milliseconds.
    fn number(self) -> f64;
    /// The value that [`Value::number`] says.
    fn of(number: f64) -> Self;
}

impl Value for f64 {
    fn number(self) -> f64 {
        self
    }
    fn of(number: f64) -> f64 {
        number
    }
}

impl Value for u64 {
    fn number(self) -> f64 {
        self as f64
    }
    fn of(number: f64) -> u64 {
        number.max(0.0) as u64
    }
}

impl Value for u32 {
    fn number(self) -> f64 {
        f64::from(self)
    }
    fn of(number: f64) -> u32 {
        number.max(0.0) as u32
    }
}

impl Value for usize {
    fn number(self) -> f64 {
        self as f64
    }
    fn of(number: f64) -> usize {
        number.max(0.0) as usize
    }
}

impl Value for Duration {
    fn number(self) -> f64 {
        self.as_secs_f64() * 1e3
    }
    fn of(number: f64) -> Duration {
        Duration::try_from_secs_f64(number / 1e3).unwrap_or_default()
    }
}

/// A parameter, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it does, and where its value comes from.
    pub meaning: &'static str,
    /// The unit of its value; none for shares and factors.
    pub unit: &'static str,
    /// Its value; durations in milliseconds.
    pub value: f64,
}

/// A duration in nanoseconds, as the estimates count.
#[inline]
pub(super) fn ns(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

macro_rules! law {
    ($($(#[doc = $meaning:literal])+ $name:ident: $kind:ty = $value:expr, $unit:literal;)+) => {
        /// The parameters of the sender's law.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Law {
            $($(#[doc = $meaning])+ pub $name: $kind,)+
        }

        impl Law {
            /// The law as it is.
            pub const LAW: Law = Law { $($name: $value,)+ };

            /// Each parameter.
            #[must_use]
            pub fn table(&self) -> Vec<Parameter> {
                vec![$(Parameter {
                    name: stringify!($name),
                    meaning: concat!($($meaning),+).trim(),
                    unit: $unit,
                    value: self.$name.number(),
                },)+]
            }

            /// Gives the parameter of this name another value, for an experiment. Whether there is one.
            pub fn set(&mut self, name: &str, value: f64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = Value::of(value),)+
                    _ => return false,
                }
                true
            }
        }
    };
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

law! {
    // What a path has room for.

    /// An idle path takes so much before it has answered; then as much again for each byte that arrived, until its
    /// limit is known: TCP's slow start (RFC 6928 begins with 10 segments), from a little more.
    first_window: f64 = 32.0 * 1500.0, "bytes";
    /// Nor is more under way on an open path than so many times what it delivers in a round trip without queue
    /// (BBR's cwnd gain in Startup, draft-ietf-ccwg-bbr §2.4) …
    startup_gain: f64 = 2.0, "";
    /// On a limited path no more is under way than it delivers in its round-trip time and this.
    spare_time: Duration = ms(100), "ms";
    /// What was sent before so long a silence does not count as under way any more.
    forgotten: Duration = ms(1000), "ms";
    /// Nor does what reports tell nothing of, though they come, for so long and for two round trips.
    lost_after: Duration = ms(250), "ms";
    /// A path that is full is looked at again after this: reports make room, this is for the case that none comes.
    look_again: Duration = ms(20), "ms";
    /// A paced path's bytes are handed out for so long at once …
    burst: Duration = ms(1), "ms";
    /// … and at least so many.
    least_burst: f64 = 3000.0, "bytes";
    /// No path is paced at more than this: 2 Gbit/s.
    fastest: f64 = 250e6, "bytes/s";
    /// Nor at less: 80 kbit/s.
    slowest: f64 = 10e3, "bytes/s";
    /// A path that delivered more than this, 1.2 Gbit/s, is not limited: the processors are what packets wait for …
    fast: f64 = 150e6, "bytes/s";
    /// … for so long.
    fast_for: Duration = ms(10_000), "ms";

    // What reports tell.

    /// An epoch has at least so many samples …
    epoch_samples: u32 = 4, "samples";
    /// … lasts so long, or a third of a round trip …
    epoch_span: Duration = ms(25), "ms";
    /// … and so many times the mean deviation of a probe's delay, so that it does not matter much …
    epoch_jitters: f64 = 8.0, "";
    /// … and has so many packets, or lasts four times as long.
    epoch_packets: u64 = 16, "packets";
    /// Samples further apart than this and a round trip are of different epochs …
    epoch_gap: Duration = ms(60), "ms";
    /// … if the path has time for more than this between them.
    epoch_gap_bytes: f64 = 8.0 * 1500.0, "bytes";
    /// The least delay is the least of the present and the former span of this length (BBR: 10 s, draft-ietf-ccwg-bbr §2.13.1).
    base_span: Duration = ms(10_000), "ms";
    /// So long a path has to be busy for an epoch to tell what it delivers then …
    busy_for: Duration = ms(5), "ms";
    /// … with so many packets. As many make a train, if they arrive in twice the time in which they were sent.
    train_packets: u64 = 12, "packets";
    /// Less delivered than this share of what was sent meanwhile: the rest waits, or is lost.
    dispersed: f64 = 0.93, "";
    /// So many trains in a row that agree …
    trains: u32 = 3, "trains";
    /// … within this share tell the capacity.
    trains_agree: f64 = 0.15, "";
    /// What an epoch told of the queue holds for so long. Then single packets and probes tell …
    seen: Duration = ms(100), "ms";
    /// … and that holds for so long. Then the queue is taken to be worked off.
    glimpsed: Duration = ms(500), "ms";

    // What jitter makes of it.

    /// The queue that is aimed at on a path without jitter (CoDel's target, RFC 8289 §4.4).
    target: Duration = ms(5), "ms";
    /// What is surely a queue, without jitter.
    limit_above: Duration = ms(10), "ms";
    /// Scatter about the trend says no more than this about the mean.
    most_scatter: Duration = ms(30), "ms";
    /// Behind the latest of its packets a busy path with jitter is so many times the jitter late …
    late_by_jitter: f64 = 4.5, "";
    /// … and no more than this.
    latest: Duration = ms(150), "ms";
    /// What does not shrink when less is sent, and is no more than this, is jitter's doing; more is others' packets.
    stuck: Duration = ms(50), "ms";
    /// So much of that is believed an epoch later.
    stuck_stays: f64 = 0.999, "";
    /// A path with more jitter than this takes trains apart, and makes packets come together.
    steady: Duration = ms(1), "ms";

    // The rate.

    /// The least time in which an excess of queue is worked off.
    correction: Duration = ms(100), "ms";
    /// A queue is worked off at no less than this share of the capacity.
    least_gain: f64 = 0.5, "";
    /// A limited path is let run dry so often, so that a queue does not become the normal …
    drain_interval: Duration = ms(8000), "ms";
    /// … at this share of its rate (BBR's Down gain is 0.9, draft-ietf-ccwg-bbr §5.3.3).
    drain_rate: f64 = 0.75, "";
    /// A limited path that was offered less than this share of its rate was not busy all the time.
    backlogged: f64 = 0.5, "";
    /// What is delivered differs from what is sent by more than this share: it tells of the path.
    differs: f64 = 0.05, "";
    /// A path is first tried at so much more than its capacity …
    first_step: f64 = 0.05, "";
    /// … and, while nothing speaks against it, at twice as much more each time, up to this.
    last_step: f64 = 0.5, "";
    /// With so much of a step carried in addition the next step follows at once …
    step_helped: f64 = 0.4, "";
    /// … else so many feedback times later …
    first_pause: u32 = 2, "";
    /// … and after a queue or loss at twice as many each time, up to this.
    last_pause: u32 = 16, "";
    /// A limited path of which no epoch told for so long is open again.
    outdated: Duration = ms(2000), "ms";

    // Loss.

    /// Loss is judged over at least so many packets …
    loss_packets: u64 = 60, "packets";
    /// … and over so many times those that may have been overtaken …
    loss_overtaken: f64 = 16.0, "";
    /// … or as soon as so many are lost that cannot only have been overtaken.
    loss_plain: f64 = 5.0, "packets";
    /// What is not excessive is counted up to so many packets: a small excess shows in many alone.
    loss_final: u64 = 600, "packets";
    /// So many packets without overtaking make a path one that keeps order.
    order_known: u64 = 100, "packets";
    /// Weight of `loss_packets` packets in the mean loss.
    loss_weight: f64 = 1.0 / 16.0, "";
    /// More loss than usual, by this share and twice its standard error, is the rate's fault (BBR tolerates 2 %, draft-ietf-ccwg-bbr §2.7) …
    loss_excess: f64 = 0.02, "";
    /// … when it is seen so often in a row: a burst of losses is not.
    loss_excesses: u32 = 2, "";
    /// Usual loss makes up for no more than this of what was sent and did not arrive.
    most_usual_loss: f64 = 0.5, "";
    /// With more lost than usual the capacity falls to this share of what it was (CUBIC's β, RFC 9438 §4.6), and to no less than what is delivered …
    loss_fall: f64 = 0.7, "";
    /// … and is tried at this share of it.
    tried_rate: f64 = 0.9, "";
    /// A path that drops before a queue shows is paced at this share of its capacity.
    shallow_gain: f64 = 0.97, "";

    // Company.

    /// A queue is looked at again after so many round trips …
    company_trips: u32 = 6, "round trips";
    /// … and this at the least.
    company_patience: Duration = ms(600), "ms";
    /// By then it has shrunk to this share, if it is ours.
    company_shrunk: f64 = 0.7, "";
    /// Lowering the rate by this share has to show in a queue …
    company_lowered: f64 = 0.15, "";
    /// … which shrinks by no less than this share of what less is sent, if most of it is ours …
    company_helped: f64 = 0.6, "";
    /// … and if it does not so often in a row, others fill it.
    company_in_vain: u32 = 3, "";
    /// A path whose queue others fill is left open for so long at first …
    compete: Duration = ms(10_000), "ms";
    /// … and at last.
    longest_compete: Duration = ms(80_000), "ms";

    // The choice of a path.

    /// So long packets wait for a faster path while a slower one's delay is not known …
    patience: Duration = ms(10), "ms";
    /// … and no more than so many bytes, whatever a slower one adds.
    patient_bytes: usize = 4 << 20, "bytes";
    /// The latest of a hundred packets is so many mean deviations later than most, in a normal distribution.
    tail_jitters: f64 = 3.0, "";
    /// With reports every few milliseconds a loss is found so long after the round trip that would have told.
    found_lost: Duration = ms(30), "ms";
    /// What is lost once more comes so much later …
    lost_again: Duration = ms(500), "ms";
    /// … and matters where more than this share is lost.
    few_lost: f64 = 0.05, "";
    /// Reports that stay away for so long …
    unreported_for: Duration = ms(3000), "ms";
    /// … though so much was sent, do not come.
    unreported_bytes: u64 = 64 << 10, "bytes";

    // Which paths are worth what they lose, where nothing lost is sent again.

    /// How often that is considered.
    worth_interval: Duration = ms(250), "ms";
    /// Less loss than this leaves no path out.
    worth_least_loss: f64 = 0.0005, "";
    /// Without it, the flows must get so many times more.
    worth_advantage: f64 = 1.2, "";
    /// A path that was left out is tried again after this at first …
    worth_first_retry: Duration = ms(20_000), "ms";
    /// … and at last.
    worth_last_retry: Duration = ms(320_000), "ms";
}

impl Default for &'static Law {
    fn default() -> &'static Law {
        &Law::LAW
    }
}
