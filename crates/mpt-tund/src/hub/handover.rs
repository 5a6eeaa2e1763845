//! What workers hand to each other: packets that the kernel brought to another than the peer's owner, and calls.
//!
//! Each line has one bounded channel that the other workers' lines of its direction fill, which wakes it. Of packets
//! from the interface, which can be super-packets, each worker may have so many bytes under way to each other one
//! ([`Room`]). What finds no room is dropped and counted by who would have handed it over: no line waits for another.
//!
//! Nothing here knows peers: see [`mpt_core::hub::Worker`] for who is gone meanwhile.

mod room;

/// What [`room`] counts with: the standard library's, or those of loom in its test.
mod counts {
    pub(super) use std::sync::Arc;
    pub(super) use std::sync::atomic::{AtomicUsize, Ordering};
}

use std::sync::Arc;

use mpt_core::hub::Handed;
use mpt_core::wire::vnet::VnetHeader;
use room::{Held, Room};
use tokio::sync::mpsc;

/// Messages that may wait for a line in: calls, of which a hub answers at most 1,000 a second, and stray datagrams.
const MAX_HANDED: usize = 256;
/// Packets that may wait for a line out: with 1,500 bytes each as many as [`MAX_BYTES`], and some.
const MAX_PACKETS: usize = 1024;
/// Bytes that may be under way from one line out to another: 4 ms of 2 Gbit/s, four batches.
const MAX_BYTES: usize = 1 << 20;

/// A packet from the interface, on its way to the line out of the worker that owns its peer.
pub(crate) struct Packet {
    pub(crate) header: VnetHeader,
    pub(crate) bytes: Vec<u8>,
    /// Given back where it ends.
    _room: Held,
}

/// What is handed over between lines in.
pub(crate) type Message = Handed;

/// A line's way to those of the other workers, and what comes from them.
pub(crate) struct Others<T> {
    pub(crate) to: Ways<T>,
    pub(crate) from: mpsc::Receiver<T>,
}

/// The ways to lines of other workers, by worker; a line's way to itself is never used.
pub(crate) struct Ways<T>(Vec<(mpsc::Sender<T>, Arc<Room>)>);

/// Of one worker: for its line out and its line in.
type Pair = (Others<Packet>, Others<Message>);

impl Others<Packet> {
    /// Those of so many workers.
    pub(crate) fn all(workers: usize) -> Vec<Pair> {
        let out = Others::connected(workers, MAX_PACKETS);
        out.into_iter()
            .zip(Others::connected(workers, MAX_HANDED))
            .collect()
    }
}

impl Ways<Packet> {
    /// Hands a packet to a worker. `false` when there is no room.
    pub(crate) fn hand(&self, worker: usize, header: &VnetHeader, packet: &[u8]) -> bool {
        let Some((line, room)) = self.0.get(worker) else {
            return false;
        };
        let (Some(held), Ok(place)) = (
            Room::take(room, packet.len(), MAX_BYTES),
            line.try_reserve(),
        ) else {
            return false;
        };
        place.send(Packet {
            header: *header,
            bytes: packet.to_vec(),
            _room: held,
        });
        true
    }
}

impl Ways<Message> {
    /// Hands something to a worker, or gives it back.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn hand(&self, worker: usize, message: Message) -> Result<(), Message> {
        match self.0.get(worker) {
            Some((line, _)) => line.try_send(message).map_err(|error| error.into_inner()),
            None => Err(message),
        }
    }
}

impl<T> Others<T> {
    fn connected(workers: usize, most: usize) -> Vec<Others<T>> {
        let channels = (0..workers).map(|_| mpsc::channel(most));
        let (lines, heard): (Vec<_>, Vec<_>) = channels.unzip();
        let way = |line: &mpsc::Sender<T>| (line.clone(), Arc::default());
        let ways = heard.into_iter().map(|from| Others {
            to: Ways(lines.iter().map(way).collect()),
            from,
        });
        ways.collect()
    }
}

#[cfg(test)]
mod together;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hands_over_more_than_there_is_room_for_is_told_and_what_was_taken_makes_room() {
        let mut workers = Others::all(3);
        let (mut second, _) = workers.remove(1);
        let (first, _) = workers.remove(0);
        let (third, _) = workers.remove(0);
        let packet = vec![7; 65_000];
        let header = VnetHeader::default();
        let fits = MAX_BYTES / packet.len();
        for _ in 0..fits {
            assert!(first.to.hand(1, &header, &packet));
        }
        assert!(!first.to.hand(1, &header, &packet));
        assert!(first.to.hand(2, &header, &packet), "room is by pair");
        assert!(third.to.hand(1, &header, &packet), "and by who hands over");
        drop(second.from.try_recv().ok());
        assert!(first.to.hand(1, &header, &packet));
        assert!(!first.to.hand(1, &header, &packet));
        let waiting = std::iter::from_fn(|| second.from.try_recv().ok());
        assert_eq!(waiting.count(), fits + 1);
        // Small ones are bounded by their number.
        let handed = (0..2 * MAX_PACKETS).filter(|_| first.to.hand(1, &header, &[7; 20]));
        assert_eq!(handed.count(), MAX_PACKETS);
    }

    #[test]
    fn nothing_is_lost_between_threads_but_what_was_refused() {
        let mut workers = Others::all(2);
        let (mut second, _) = workers.remove(1);
        let (first, _) = workers.remove(0);
        let packets = 20_000u32;
        let taking = std::thread::spawn(move || {
            let mut taken = Vec::new();
            let mut idle = 0;
            while idle < 1_000 && taken.last() != Some(&packets) {
                match second.from.try_recv().ok() {
                    Some(packet) => {
                        let number = packet.bytes[..4].try_into().unwrap();
                        taken.push(u32::from_be_bytes(number));
                        idle = 0;
                    }
                    None => {
                        idle += 1;
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                }
            }
            taken
        });
        let mut sent = Vec::new();
        for number in 0..=packets {
            let mut packet = vec![0; 1000 + number as usize % 7 * 1000];
            packet[..4].copy_from_slice(&number.to_be_bytes());
            while !first.to.hand(1, &VnetHeader::default(), &packet) {
                if number % 3 > 0 && number < packets {
                    break;
                }
                std::thread::yield_now();
            }
            sent.push(number);
        }
        let taken = taking.join().unwrap();
        assert_eq!(taken.last(), sent.last());
        assert!(taken.is_sorted(), "in their order");
        assert_eq!(first.to.0[1].1.taken(), 0, "all room is back");
    }
}
