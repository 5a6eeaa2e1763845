//! Two ends with two paths each and an attacker who has one of the paths in his hand, in every order of
//! events.
//!
//! The attacker is path 0: what is sent to an end of it, or to his own address, only he has. He puts
//! what he has before any socket, as often as he likes, as if it came from himself, from a bystander, or from the
//! true peer. Path 1 is an honest network, which he does
//! not hear: it delivers in any order or not at all. Ends send when they like. Whatever time it takes, he may let path 0
//! fall silent. What he cannot do is open or make a sealed message.
//!
//! [`Place`] is the real one. What stands around it in `tunnel/sealing.rs` (`may_be_for`, `place_control`,
//! `release_elsewhere`, `rank`) is written again here, without counters. Only the number of messages that an end sends
//! is limited ([`Case::most_sent`]), so that the search ends.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Call, Place, Rank, Ruling};

/// Who has a name here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At {
    /// Path 0 and path 1 of the first end.
    A(u8),
    /// … and of the second.
    B(u8),
    Attacker,
    /// Somebody who has nothing to do with it, and does not answer.
    Bystander,
}

const ANYWHERE: [At; 6] = [
    At::A(0),
    At::A(1),
    At::B(0),
    At::B(1),
    At::Attacker,
    At::Bystander,
];
const ENDS: [usize; 2] = [0, 1];
const PATHS: [u8; 2] = [0, 1];
/// The one that the attacker has not.
const HONEST: u8 = 1;

impl At {
    fn of(end: usize, path: u8) -> At {
        if end == 0 { At::A(path) } else { At::B(path) }
    }

    fn address(self) -> SocketAddr {
        let host = match self {
            At::A(path) => 10 + path,
            At::B(path) => 20 + path,
            At::Attacker => 30,
            At::Bystander => 40,
        };
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 4754)
    }
}

/// What an end asks whoever is there to send back.
fn code(end: usize, path: u8, at: At) -> u64 {
    1 + u64::from(at.address().port())
        + 100_000 * ANYWHERE.iter().position(|known| *known == at).unwrap() as u64
        + 1_000_000 * u64::from(path)
        + 10_000_000 * end as u64
}

/// A sealed message of kind 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Letter {
    by: usize,
    from: u8,
    to: Option<u8>,
    number: u64,
    code: u64,
    answer: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct End {
    places: [Place; 2],
    peers: [Option<At>; 2],
    answered: [bool; 2],
    /// Which numbers were opened, by the peer's path.
    opened: [u16; 2],
    next_number: [u64; 2],
    /// Less than `dead_after` old.
    is_new: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    ends: [End; 2],
    /// What the attacker has.
    heard: BTreeSet<Letter>,
    /// What is under way on the honest path.
    under_way: BTreeSet<Letter>,
}

/// What is left out to see whether it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Version 1: a control message counts on the path whose socket it came by.
    Binding,
    /// A newest message moves the address at once.
    Challenge,
}

/// Where the search begins.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// Where each end's configuration says that the other is.
    homes: [[Option<At>; 2]; 2],
    /// Both paths are up, or nothing has been sent yet.
    is_up: bool,
    /// Numbers that an end has for messages on each path.
    most_sent: [u64; 2],
    without: Without,
}

const BOTH_KNOW: [[Option<At>; 2]; 2] = [
    [Some(At::B(0)), Some(At::B(1))],
    [Some(At::A(0)), Some(At::A(1))],
];
const B_IS_CALLED: [[Option<At>; 2]; 2] = [[Some(At::B(0)), Some(At::B(1))], [None, None]];

impl Case {
    fn first(&self) -> World {
        let end = |end: usize| {
            let mut made = End {
                places: Default::default(),
                peers: self.homes[end],
                answered: [self.is_up; 2],
                opened: [0; 2],
                next_number: [u64::from(self.is_up); 2],
                is_new: !self.is_up,
            };
            if self.is_up {
                for path in PATHS {
                    let from = At::of(1 - end, path);
                    let call = Call {
                        from: from.address(),
                        peer_path: path,
                        number: 0,
                        rank: self.rank(end, path, path, from),
                        code: code(1 - end, path, At::of(end, path)),
                        answers: true,
                    };
                    made.places[usize::from(path)].judge(None, &call);
                    made.peers[usize::from(path)] = Some(from);
                    made.opened = [1; 2];
                }
            }
            made
        };
        World {
            ends: ENDS.map(end),
            heard: BTreeSet::new(),
            under_way: BTreeSet::new(),
        }
    }

    fn rank(&self, end: usize, path: u8, peer_path: u8, from: At) -> Rank {
        let is_home = self.homes[end][usize::from(path)] == Some(from);
        match (is_home, peer_path == path) {
            (true, true) => Rank::ConfiguredWithSameIndex,
            (true, false) => Rank::Configured,
            (false, true) => Rank::SameIndex,
            (false, false) => Rank::Caller,
        }
    }

    /// Sends a message, if the end has one left.
    fn send(
        &self,
        world: &mut World,
        end: usize,
        from: u8,
        to: At,
        answer: u64,
        peer_path: Option<u8>,
    ) -> bool {
        let number = world.ends[end].next_number[usize::from(from)];
        if number >= self.most_sent[usize::from(from)] {
            return false;
        }
        world.ends[end].next_number[usize::from(from)] += 1;
        let letter = Letter {
            by: end,
            from,
            to: peer_path,
            number,
            code: code(end, from, to),
            answer,
        };
        if from == HONEST && to == At::of(1 - end, HONEST) {
            world.under_way.insert(letter);
        } else if to != At::Bystander {
            world.heard.insert(letter);
        }
        true
    }

    /// A probe to where the peer is, and a call at home where that is due.
    fn probe(&self, world: &World, end: usize, path: u8) -> Vec<World> {
        let index = usize::from(path);
        let known = &world.ends[end];
        let (place, works) = (&known.places[index], known.answered[index]);
        let mut after = Vec::new();
        if let Some(to) = known.peers[index] {
            let mut next = world.clone();
            let peer_path = place.peer_path().filter(|_| works);
            if self.send(&mut next, end, path, to, place.answer(), peer_path) {
                after.push(next);
            }
        }
        if let Some(home) = self.homes[end][index]
            && known.peers[index] != Some(home)
            && !(works && place.withstands(Rank::Configured))
        {
            let mut next = world.clone();
            if self.send(&mut next, end, path, home, 0, None) {
                after.push(next);
            }
        }
        after
    }

    fn may_be_for(&self, end: &End, me: usize, path: u8, letter: &Letter, from: At) -> bool {
        if self.without == Without::Binding {
            return true;
        }
        if letter.to.is_some_and(|to| to != path) {
            return false;
        }
        let place = &end.places[usize::from(path)];
        if place.is_bound_to(letter.from) {
            return true;
        }
        let rank = self.rank(me, path, letter.from, from);
        let keeps = |path: usize| end.answered[path] && end.places[path].withstands(rank);
        let elsewhere = (0..2).any(|path| end.places[path].is_bound_to(letter.from) && keeps(path));
        let awaits_home = self.homes[me][usize::from(path)].is_some()
            && place.peer_path().is_none()
            && end.is_new;
        let too_early = rank < Rank::Configured && awaits_home;
        !keeps(usize::from(path)) && !elsewhere && !too_early
    }

    /// A message comes by the socket of a path.
    fn receive(
        &self,
        world: &World,
        me: usize,
        path: u8,
        letter: &Letter,
        from: At,
    ) -> Option<World> {
        let index = usize::from(path);
        let mut world = world.clone();
        let end = &mut world.ends[me];
        let opened = &mut end.opened[usize::from(letter.from)];
        if *opened & 1 << letter.number != 0 {
            return None;
        }
        *opened |= 1 << letter.number;
        if !self.may_be_for(end, me, path, letter, from) {
            return None;
        }
        let place = &mut end.places[index];
        let peer_path = match (self.without, place.peer_path()) {
            (Without::Binding, Some(bound)) => bound,
            _ => letter.from,
        };
        let answers = letter.answer == code(me, path, from);
        let call = Call {
            from: from.address(),
            peer_path,
            number: letter.number,
            rank: self.rank(me, path, peer_path, from),
            code: letter.code,
            answers: answers || self.without == Without::Challenge,
        };
        let peer = end.peers[index].map(At::address);
        let ruling = place.judge(peer, &call);
        match ruling {
            Ruling::Take | Ruling::TakeAndAsk | Ruling::Ask => {}
            Ruling::Bind => {
                place.forget_numbers();
                let other = &mut end.places[1 - index];
                if other.is_bound_to(peer_path) {
                    other.release();
                }
                end.peers[index] = Some(from);
            }
            Ruling::Move => end.peers[index] = Some(from),
        }
        if ruling != Ruling::Ask && answers {
            end.answered[index] = true;
        }
        if matches!(ruling, Ruling::Ask | Ruling::TakeAndAsk) {
            self.send(&mut world, me, path, from, call.code, Some(call.peer_path));
        }
        Some(world)
    }

    /// All that can happen next, and how it is called.
    fn next(&self, world: &World) -> Vec<(String, World)> {
        let mut after = Vec::new();
        for end in ENDS {
            for path in PATHS {
                let sent = self.probe(world, end, path).into_iter();
                after.extend(sent.map(|next| (format!("{:?} sends", At::of(end, path)), next)));
            }
        }
        for letter in &world.under_way {
            let (from, to) = (At::of(letter.by, HONEST), 1 - letter.by);
            let mut before = world.clone();
            before.under_way.remove(letter);
            let next = self.receive(&before, to, HONEST, letter, from);
            after.push((
                format!("{from:?} is heard: {letter:?}"),
                next.unwrap_or(before),
            ));
        }
        for letter in &world.heard {
            for path in PATHS {
                let to = 1 - letter.by;
                for from in [At::Attacker, At::Bystander, At::of(letter.by, path)] {
                    if let Some(next) = self.receive(world, to, path, letter, from) {
                        let at = At::of(to, path);
                        after.push((format!("{at:?} is given, from {from:?}: {letter:?}"), next));
                    }
                }
            }
        }
        for end in ENDS {
            let is_met = world.ends[end].places[usize::from(HONEST)]
                .peer_path()
                .is_some();
            let mut next = world.clone();
            next.ends[end].answered[0] = false;
            next.ends[end].is_new &= !is_met;
            after.push((format!("end {end} waits for dead_after"), next));
        }
        after
    }

    /// What is wrong with the world as it is.
    fn fault(&self, world: &World) -> Option<&'static str> {
        for end in ENDS {
            let honest = usize::from(HONEST);
            let (peer, place) = (
                world.ends[end].peers[honest],
                &world.ends[end].places[honest],
            );
            if peer.is_some_and(|peer| peer != At::of(1 - end, HONEST)) {
                return Some("the honest path is led away");
            }
            if place.peer_path().map_or(self.is_up, |path| path != HONEST) {
                return Some("the honest path is taken for another");
            }
            if world.ends[end].peers.contains(&Some(At::Bystander)) {
                return Some("a path leads to somebody who has not answered");
            }
        }
        None
    }

    /// Looks at all worlds that can come about. Returns how many those are, or how it went wrong.
    fn explore(&self) -> Result<usize, String> {
        let first = self.first();
        assert_eq!(self.fault(&first), None);
        let mut known = HashSet::from([digest(&first)]);
        let mut events = vec![(0, String::new())];
        let mut queue = VecDeque::from([(0, first)]);
        while let Some((at, world)) = queue.pop_front() {
            for (event, next) in self.next(&world) {
                if !known.insert(digest(&next)) {
                    continue;
                }
                let index = events.len();
                events.push((at, event));
                if let Some(fault) = self.fault(&next) {
                    return Err(story(&events, index, fault));
                }
                queue.push_back((index, next));
            }
        }
        Ok(events.len())
    }
}

/// 128 bits for a world: with a million of them the odds that two have the same are one in 10^26.
fn digest(world: &World) -> (u64, u64) {
    let of = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, world).hash(&mut hasher);
        hasher.finish()
    };
    (of(0), of(1))
}

/// How it came to the last of these worlds.
fn story(events: &[(usize, String)], mut at: usize, fault: &str) -> String {
    let mut told = vec![format!("→ {fault}")];
    while at != 0 {
        told.push(events[at].1.clone());
        at = events[at].0;
    }
    told.reverse();
    told.join("\n")
}

fn case(homes: [[Option<At>; 2]; 2], is_up: bool, most_sent: [u64; 2], without: Without) -> Case {
    Case {
        homes,
        is_up,
        most_sent,
        without,
    }
}

/// As many numbers as a test has time for, or so many more as `MPT_TEST_DEPTH` says: with 1, a million worlds in a
/// minute.
fn depth(least: [u64; 2]) -> [u64; 2] {
    let more = std::env::var("MPT_TEST_DEPTH").ok();
    let more = more.and_then(|more| more.parse::<u64>().ok());
    least.map(|least| least + more.unwrap_or(0))
}

/// Nothing goes wrong, whatever the attacker does.
#[track_caller]
fn holds(case: Case) {
    match case.explore() {
        Ok(worlds) => println!("{worlds} worlds"),
        Err(story) => panic!("{story}"),
    }
}

/// The model can fail: without what is left out, this goes wrong.
#[track_caller]
fn fails(case: Case, how: &str) {
    let story = case.explore().expect_err("nothing goes wrong");
    println!("{story}");
    assert!(story.contains(how), "{story}");
}

#[test]
fn who_has_one_path_leads_the_other_nowhere_when_both_ends_know_the_other_s_address() {
    holds(case(BOTH_KNOW, true, depth([3, 2]), Without::Nothing));
    holds(case(BOTH_KNOW, false, depth([2, 1]), Without::Nothing));
}

#[test]
fn who_has_one_path_leads_the_other_nowhere_when_one_end_is_called() {
    holds(case(B_IS_CALLED, true, depth([3, 2]), Without::Nothing));
}

#[test]
fn without_the_binding_of_messages_to_paths_the_other_path_is_led_away() {
    let case = case(BOTH_KNOW, true, [3, 2], Without::Binding);
    fails(case, "the honest path is led away");
}

#[test]
fn without_a_challenge_a_path_is_led_to_whom_the_attacker_names() {
    let case = case(BOTH_KNOW, true, [3, 2], Without::Challenge);
    fails(case, "a path leads to somebody who has not answered");
}
