//! Every parameter of the sender's law: how the rate of a path is found, and which path takes a packet.
//!
//! docs/rate-control.md has the same table beside the equations; a test compares the two. What random links say
//! when a parameter is halved or doubled, the campaign prints: `--vary NAME`.

use std::time::Duration;

use crate::send::units::Rate;

/// A parameter's value, to be shown and changed as a number.
pub trait Value: Copy {
    /// The value: durations in milliseconds, rates in bytes a second.
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

impl Value for Rate {
    fn number(self) -> f64 {
        self.bytes_a_second()
    }
    fn of(number: f64) -> Rate {
        Rate::new(number)
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
    /// Its value; durations in milliseconds, rates in bytes a second.
    pub value: f64,
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

    /// Before anything is known, so much may be under way on an idle path; then as much more as has arrived, until
    /// its limit is known. That is TCP's slow start (RFC 6928 begins with 10 segments), from a little more.
    first_window: f64 = 32.0 * 1500.0, "bytes";
    /// On an open path, no more is under way than the first window and so many times what it delivered at best in a
    /// round trip without a queue (DefaultCwndGain of draft-ietf-ccwg-bbr).
    startup_gain: f64 = 2.0, "";
    /// On a limited path, no more is under way than the first window and what its rate carries in a round trip and
    /// this time.
    spare_time: Duration = ms(100), "ms";
    /// When reports come and tell of nothing new on the path for this long, and for two round trips, what is under way
    /// is taken to be lost. A packet that is lost once more comes this much later.
    lost_after: Duration = ms(250), "ms";
    /// A paced path's bytes are handed out for this time at once.
    burst: Duration = ms(1), "ms";
    /// A paced path's bytes are handed out in at least this amount.
    least_burst: f64 = 3000.0, "bytes";
    /// No path is paced at more than this, 2 Gbit/s.
    fastest: Rate = Rate::new(250e6), "bytes/s";
    /// No path is paced at less than this, 80 kbit/s.
    slowest: Rate = Rate::new(10e3), "bytes/s";
    /// A path that delivered more than this, 1.2 Gbit/s, is not limited for `base_span`: at such rates packets wait
    /// for the processors.
    fast: Rate = Rate::new(150e6), "bytes/s";

    // What reports tell.

    /// An epoch has at least so many samples.
    epoch_samples: u32 = 4, "samples";
    /// An epoch lasts at least this time and a third of a round trip.
    epoch_span: Duration = ms(25), "ms";
    /// An epoch lasts at least so many mean deviations of a probe's delay, so that they do not matter much.
    epoch_jitters: f64 = 8.0, "";
    /// An epoch has at least so many packets, or lasts four times `epoch_span`.
    epoch_packets: u64 = 16, "packets";
    /// Samples that are further apart than this, a round trip, and the time that a slow path takes for a train are of
    /// different epochs.
    epoch_gap: Duration = ms(60), "ms";
    /// The least delay is the least of the present and the former span of this length (MinRTTFilterLen of
    /// draft-ietf-ccwg-bbr). A path whose queue others fill is left open for this time, and for twice as long each
    /// time that they stay.
    base_span: Duration = ms(10_000), "ms";
    /// A busy path tells what it delivers with so many packets. As many make a train, if they took twice as long to
    /// arrive as to be sent. Fewer in `spare_time` are a trickle, which tells neither what a path carries nor what it
    /// would lose.
    train_packets: u64 = 12, "packets";
    /// When less than this share of what was sent meanwhile is delivered, the rest waits, or is lost.
    dispersed: f64 = 0.93, "";
    /// So many trains in a row that agree tell the capacity.
    trains: u32 = 3, "trains";
    /// Trains agree when their rates differ by no more than this share.
    trains_agree: f64 = 0.15, "";
    /// What an epoch told of the queue holds for this time. Then single packets and probes tell.
    seen: Duration = ms(100), "ms";
    /// What a single packet or a probe told of the queue holds for this time. Then what was under way from here is taken to
    /// be worked off.
    glimpsed: Duration = ms(500), "ms";

    // What jitter makes of it.

    /// The queue that is aimed at on a path without jitter (CoDel's target, RFC 8289). A queue of twice this length is
    /// surely one. Packets wait for a faster path as long as that while the delay of a slower one is not known. A path
    /// that was busy for the target tells what it delivers. One that is full is looked at again after four targets, if
    /// no report makes room earlier.
    target: Duration = ms(5), "ms";
    /// Under load, a path with jitter delivers so many times the jitter later, since all wait for the latest packet.
    late_by_jitter: f64 = 4.5, "";
    /// It is at least so many times as late as the queue of an epoch differs from that of the one before: few probes
    /// may agree by chance. From 2 to 3 is the same in the campaign; 5 loses a tenth of p10 late, and 2.5 more at 3 ms of
    /// jitter (`sim_adaptive`).
    late_by_step: f64 = 2.0, "";
    /// That lateness is no more than this, nor does more scatter of the delays about their trend count.
    latest: Duration = ms(150), "ms";
    /// A queue that does not shrink when less is sent is others' packets when it is longer than this beyond the
    /// lateness. 20 and 50 are the same in the campaign, and only 20 finds one CUBIC flow in a queue of a round trip
    /// (`benches/profiles fairness`).
    stuck: Duration = ms(20), "ms";
    /// A path with more jitter than this takes trains apart, and brings other packets together.
    steady: Duration = ms(1), "ms";

    // The rate.

    /// An excess of queue is worked off in no less than this time.
    correction: Duration = ms(100), "ms";
    /// A queue is worked off at no less than this share of the capacity. Of what is sent, usual loss leaves no less than
    /// this share: a path that loses more when less is sent overflows.
    least_gain: f64 = 0.5, "";
    /// A limited path is let run dry each `base_span`, so that a queue that stands does not become the normal delay. It
    /// is paced at this share of its capacity meanwhile (0.9 in ProbeBW_DOWN of draft-ietf-ccwg-bbr). A path over which
    /// nothing went for longer than `glimpsed` ran dry by itself, and counts `base_span` from then.
    /// Where the rate was lowered in vain for a queue, no more than this share of what is offered must arrive for a lower
    /// capacity.
    drain_rate: f64 = 0.75, "";
    /// A limited path that was offered less than this share of its rate was not busy all the time.
    backlogged: f64 = 0.5, "";
    /// What is delivered tells of the path, and not of what was sent, when the two differ by more than this share. A
    /// queue for which the rate is lowered by no more than that is the law's own, and not of others. One that differs by
    /// less from one time to the next is none: the path takes longer.
    differs: f64 = 0.05, "";
    /// A path without jitter is first tried at so much more than its capacity, and any path after a queue or a loss.
    first_step: f64 = 0.05, "";
    /// While nothing speaks against it, a path is tried at twice as much more each time, up to this. On a path
    /// with jitter, a queue with which that is carried is none.
    last_step: f64 = 0.5, "";
    /// When so much of a step is carried in addition, the next step follows at once. A queue that is mostly ours shrinks by
    /// no less than this share of what less is sent.
    step_helped: f64 = 0.4, "";
    /// Else the next step follows so many feedback times later.
    first_pause: u32 = 2, "";
    /// After a queue or a loss the pause is twice as long each time, up to so many feedback times.
    last_pause: u32 = 16, "";
    /// When no report of a path came for this time, what was sent before does not count as under way any more.
    outdated: Duration = ms(2000), "ms";

    // Loss.

    /// Loss is judged over at least so many packets.
    loss_packets: u64 = 60, "packets";
    /// Loss is judged over at least so many times the packets that may have been overtaken.
    loss_overtaken: f64 = 16.0, "";
    /// Loss is judged at once when so many more are missing than may have been overtaken.
    loss_plain: f64 = 5.0, "packets";
    /// Loss that is not excessive is counted up to so many packets, since a small excess shows in many alone.
    loss_final: u64 = 600, "packets";
    /// A path keeps order when so many packets arrived since one was last overtaken.
    order_known: u64 = 100, "packets";
    /// A packet is taken to have so many bytes where its size does not matter much.
    mean_bytes: f64 = 1200.0, "bytes";
    /// More loss than usual by this share and two standard errors is the fault of the rate (LossThresh of
    /// draft-ietf-ccwg-bbr).
    loss_excess: f64 = 0.02, "";
    /// It is the fault of the rate when it is seen so often in a row; one burst of losses is not.
    loss_excesses: u32 = 2, "";
    /// After such a loss the path is paced at this share of its capacity, to see whether it still loses.
    tried_rate: f64 = 0.9, "";
    /// It is paced so for four round trips and this time.
    loss_hold: Duration = ms(200), "ms";

    // Company.

    /// Whether a queue shrinks is judged after so many round trips.
    /// For a long one that does not, the rate is lowered to `drain_rate`, to see whose it is.
    company_trips: u32 = 6, "round trips";
    /// Whether a queue shrinks is judged after no less than this time.
    company_patience: Duration = ms(600), "ms";
    /// A queue that is ours has shrunk to this share by then.
    company_shrunk: f64 = 0.7, "";
    /// A rate that was lowered by this share must show in the queue.
    company_lowered: f64 = 0.15, "";
    /// When the rate was lowered in vain so often in a row, others fill the queue.
    company_in_vain: u32 = 3, "";
    /// A path that carries less than this share of the mean of all does not compete with others. With 0 in its place, and with
    /// single packets that end what is believed of the queue on those that carry more alone, 5.0 % of the field were below
    /// 0.95 of the better link late (`campaign --family field --pairs 60 --seed 4000`), and 3.3 % with it; `crossed`,
    /// `shared` and `drifting` differed by half a percent, either way.
    company_worth: f64 = 0.5, "";

    // The choice of a path.

    /// No more than so many bytes wait for a faster path, whatever a slower one adds.
    patient_bytes: usize = 4 << 20, "bytes";
    /// The latest of a hundred packets is so many mean deviations later than most, in a normal distribution.
    tail_jitters: f64 = 3.0, "";
    /// On a path that carries less than its even share, what its losses make others wait counts so many times more,
    /// divided by its shares, up to what it is quicker than the path that carries most (`campaign --pairs`: 4 to 20 differ
    /// by less than their errors).
    losses_weigh: f64 = 8.0, "";
    /// When no report comes for this time, though a first window was sent, weights decide.
    unreported_for: Duration = ms(3000), "ms";
}

impl Law {
    /// More than this is surely a queue, on a path without jitter.
    pub(super) fn surely_a_queue(&self) -> Duration {
        self.target * 2
    }
}

impl Default for &'static Law {
    fn default() -> &'static Law {
        &Law::LAW
    }
}
