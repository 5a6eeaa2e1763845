//! The classes of a tunnel.

use mpt_core::control::classes::ClassStatus;

use super::super::Sample;
use super::{Family, Labels, Things, Values, with};

/// Of each class.
pub(super) const FAMILIES: &[Family<ClassStatus>] = &[
    Family {
        name: "class_packets",
        help: "Packets of the class that came from this host, those included that were dropped.",
        values: Values::Counter(|class| Some(class.packets)),
    },
    Family {
        name: "class_bytes",
        help: "Their bytes, inner headers included.",
        values: Values::Counter(|class| Some(class.bytes)),
    },
    Family {
        name: "class_copies",
        help: "Datagrams of the class that went besides the first of each packet.",
        values: Values::Counter(|class| Some(class.copies)),
    },
    Family {
        name: "class_copy_bytes",
        help: "Their bytes, GRE header included.",
        values: Values::Counter(|class| Some(class.copy_bytes)),
    },
    Family {
        name: "class_uncopied_packets",
        help: "Packets that were to be copied, and went once: `copies` was used up, or one path was there.",
        values: Values::Counter(|class| Some(class.uncopied)),
    },
    Family {
        name: "class_elsewhere_packets",
        help: "Packets that went over other paths than the class's, since none of these was up.",
        values: Values::Counter(|class| Some(class.elsewhere)),
    },
    Family {
        name: "class_dropped_packets",
        help: "Packets of the class that were dropped, by reason: no_path, queue.",
        values: Values::Counters("reason", |class| {
            vec![
                ("no_path".to_owned(), class.dropped_no_path),
                ("queue".to_owned(), class.dropped_queue),
            ]
        }),
    },
    Family {
        name: "class_queue_packets",
        help: "Packets of the class that wait for a path.",
        values: Values::Gauge(|class| Some(class.queue_packets as f64)),
    },
];

/// All classes of these tunnels.
pub(super) fn all<'a>(tunnels: &Things<'a, Sample>) -> Things<'a, ClassStatus> {
    let of_one = |(labels, sample): &(Labels, &'a Sample)| {
        let labels = labels.clone();
        let classes = sample.status.classes.iter();
        classes.map(move |class| (with(&labels, "class", &class.name), class))
    };
    tunnels.iter().flat_map(of_one).collect()
}
