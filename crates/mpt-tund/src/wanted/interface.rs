//! The TUN interface as it is to be, compared with what it is.
//!
//! Only what was asked for is compared: an address or a route that somebody else gave the interface is
//! theirs and stays. What the tunnel itself gave it (`ours`) and the file no longer wants goes.

use std::collections::BTreeSet;
use std::fmt;

use crate::netlink::{Prefix, network};

/// What is configured of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Wanted {
    /// Its name.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) mtu: u32,
    /// In the order of the file: the first of a network is the one that packets are sent from.
    pub(crate) addresses: Vec<Prefix>,
    /// Destinations.
    pub(crate) routes: Vec<Prefix>,
}

/// What there is of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Observed {
    /// Its name.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) mtu: u32,
    /// The administrator, or we, have set it up.
    pub(crate) is_up: bool,
    /// Its usable addresses.
    pub(crate) addresses: BTreeSet<Prefix>,
    /// Destinations of the routes through it, of whatever table but the tunnel's own.
    pub(crate) routes: BTreeSet<Prefix>,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Give it its name back.
    Rename,
    /// Take away a route that was ours.
    RemoveRoute(Prefix),
    /// Take away an address that was ours.
    RemoveAddress(Prefix),
    /// Give it its MTU, in bytes.
    SetMtu(u32),
    /// Give it an address.
    AddAddress(Prefix),
    /// Set it up.
    SetUp,
    /// Give it a route.
    AddRoute(Prefix),
    /// Give it back the route to this address's own network, which the kernel had made.
    AddNetwork(Prefix),
}

/// What the item of a step is called, for the log and for `missing`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Rename => f.write_str("its name"),
            Step::SetMtu(mtu) => write!(f, "MTU {mtu}"),
            Step::SetUp => f.write_str("the state `up`"),
            Step::AddAddress((ip, length)) | Step::RemoveAddress((ip, length)) => {
                write!(f, "address {ip}/{length}")
            }
            Step::AddRoute((ip, length)) | Step::RemoveRoute((ip, length)) => {
                write!(f, "route {ip}/{length}")
            }
            Step::AddNetwork(address) => Step::AddRoute(network(*address)).fmt(f),
        }
    }
}

impl Step {
    /// Removals first, then what the kernel wants before the rest.
    fn turn(self) -> u8 {
        match self {
            Step::Rename => 0,
            Step::RemoveRoute(_) => 1,
            Step::RemoveAddress(_) => 2,
            Step::SetMtu(_) => 3,
            Step::AddAddress(_) => 4,
            Step::SetUp => 5,
            Step::AddRoute(_) | Step::AddNetwork(_) => 6,
        }
    }

    /// Whether it takes something away that nobody wants any more.
    #[cfg(test)]
    pub(crate) fn is_removal(self) -> bool {
        matches!(self, Step::RemoveRoute(_) | Step::RemoveAddress(_))
    }
}

/// What is to be done so that the interface is as wanted, in this order. `ours` is what this tunnel gave
/// it. The kernel does some by itself (the route to an address's own network, say): after these steps, look
/// again.
pub(crate) fn steps(wanted: &Wanted, observed: &Observed, ours: &BTreeSet<Step>) -> Vec<Step> {
    let mut steps = Vec::new();
    if observed.name != wanted.name {
        steps.push(Step::Rename);
    }
    if observed.mtu != wanted.mtu {
        steps.push(Step::SetMtu(wanted.mtu));
    }
    if !observed.is_up {
        steps.push(Step::SetUp);
    }
    let missing = wanted.addresses.iter();
    let missing = missing.filter(|address| !observed.addresses.contains(address));
    steps.extend(missing.map(|&address| Step::AddAddress(address)));
    steps.extend(missing_networks(wanted, observed).map(Step::AddNetwork));
    steps.extend(missing_routes(wanted, observed).map(Step::AddRoute));
    steps.extend(ours.iter().filter_map(|given| match *given {
        Step::AddAddress(address) => {
            let goes =
                !wanted.addresses.contains(&address) && observed.addresses.contains(&address);
            goes.then_some(Step::RemoveAddress(address))
        }
        Step::AddRoute(route) => {
            let goes = !wants_route(wanted, route) && observed.routes.contains(&network(route));
            goes.then_some(Step::RemoveRoute(route))
        }
        Step::Rename
        | Step::SetMtu(_)
        | Step::SetUp
        | Step::AddNetwork(_)
        | Step::RemoveAddress(_)
        | Step::RemoveRoute(_) => None,
    }));
    // Stable, so that addresses keep the order of the file.
    steps.sort_by_key(|step| step.turn());
    steps
}

/// Routes of the file that are not there. Those to the networks of addresses are the kernel's affair.
fn missing_routes<'a>(
    wanted: &'a Wanted,
    observed: &'a Observed,
) -> impl Iterator<Item = Prefix> + 'a {
    let routes = wanted.routes.iter();
    let routes = routes.filter(|route| !is_connected(wanted, **route));
    let routes = routes.map(|&route| network(route));
    routes.filter(|route| !observed.routes.contains(route))
}

/// Addresses that are there and whose networks' routes are not: the kernel makes these when an address
/// comes or the interface goes up, and not again when one is deleted.
fn missing_networks<'a>(
    wanted: &'a Wanted,
    observed: &'a Observed,
) -> impl Iterator<Item = Prefix> + 'a {
    let mut seen = BTreeSet::new();
    let present = |address: &&Prefix| observed.is_up && observed.addresses.contains(address);
    let present = wanted.addresses.iter().filter(present);
    let present = present.filter(|address| has_network(address)).copied();
    present.filter(move |&address| {
        let route = network(address);
        !observed.routes.contains(&route) && seen.insert(route)
    })
}

fn wants_route(wanted: &Wanted, route: Prefix) -> bool {
    let listed = wanted
        .routes
        .iter()
        .any(|&one| network(one) == network(route));
    listed || is_connected(wanted, route)
}

/// Whether the kernel makes this route by itself, for one of the addresses.
fn is_connected(wanted: &Wanted, route: Prefix) -> bool {
    let mut addresses = wanted.addresses.iter();
    addresses.any(|address| has_network(address) && network(*address) == network(route))
}

/// Whether there is more in the address's network than itself.
fn has_network((ip, length): &Prefix) -> bool {
    *length < if ip.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::subsequence;

    fn prefix(text: &str) -> Prefix {
        let (ip, length) = text.split_once('/').unwrap();
        (ip.parse().unwrap(), length.parse().unwrap())
    }

    fn wanted() -> Wanted {
        Wanted {
            name: "mpt0".to_owned(),
            mtu: 1464,
            addresses: ["10.99.0.1/30", "fd99::1/64", "10.98.0.1/32"]
                .map(prefix)
                .to_vec(),
            routes: ["192.0.2.0/24", "10.99.0.0/30", "2001:db8::/32"]
                .map(prefix)
                .to_vec(),
        }
    }

    /// Does what the steps say as the kernel would.
    fn carry_out(steps: &[Step], observed: &mut Observed, ours: &mut BTreeSet<Step>) {
        for &step in steps {
            match step {
                Step::Rename => "mpt0".clone_into(&mut observed.name),
                Step::SetMtu(mtu) => observed.mtu = mtu,
                Step::SetUp => {
                    observed.is_up = true;
                    let networks = observed.addresses.iter().filter(|one| has_network(one));
                    let networks: Vec<Prefix> = networks.map(|&one| network(one)).collect();
                    observed.routes.extend(networks);
                }
                Step::AddAddress(address) => {
                    observed.addresses.insert(address);
                    if observed.is_up && has_network(&address) {
                        observed.routes.insert(network(address));
                    }
                }
                Step::AddNetwork(address) => {
                    assert!(observed.is_up && observed.routes.insert(network(address)));
                }
                Step::AddRoute(route) => {
                    assert!(observed.is_up, "no route over an interface that is down");
                    assert!(observed.routes.insert(route), "{route:?} is there");
                }
                Step::RemoveAddress(address) => {
                    assert!(observed.addresses.remove(&address));
                    observed.routes.remove(&network(address));
                }
                Step::RemoveRoute(route) => assert!(observed.routes.remove(&network(route))),
            }
            if step.is_removal() {
                let mirror = |given: &Step| given.to_string() != step.to_string();
                ours.retain(mirror);
            } else {
                ours.insert(step);
            }
        }
    }

    /// Until nothing is left to do; returns the number of rounds.
    fn mend(wanted: &Wanted, observed: &mut Observed, ours: &mut BTreeSet<Step>) -> u32 {
        for round in 0..3 {
            let steps = steps(wanted, observed, ours);
            if steps.is_empty() {
                return round;
            }
            carry_out(&steps, observed, ours);
        }
        panic!("it does not come to rest: {observed:?}");
    }

    #[test]
    fn a_new_interface_gets_everything_in_an_order_that_the_kernel_takes() {
        let (mut observed, mut ours) = (Observed::default(), BTreeSet::new());
        let first: Vec<String> = steps(&wanted(), &observed, &ours)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            first,
            [
                "its name",
                "MTU 1464",
                "address 10.99.0.1/30",
                "address fd99::1/64",
                "address 10.98.0.1/32",
                "the state `up`",
                "route 192.0.2.0/24",
                "route 2001:db8::/32"
            ]
        );
        assert_eq!(mend(&wanted(), &mut observed, &mut ours), 1);
    }

    #[test]
    fn a_deleted_route_to_an_addresss_own_network_comes_back() {
        let (mut observed, mut ours) = (Observed::default(), BTreeSet::new());
        mend(&wanted(), &mut observed, &mut ours);
        observed.routes.remove(&prefix("10.99.0.0/30"));
        let again = [Step::AddNetwork(prefix("10.99.0.1/30"))];
        assert_eq!(steps(&wanted(), &observed, &ours), again);
    }

    #[test]
    fn what_the_file_no_longer_wants_goes_and_what_others_gave_stays() {
        let (mut observed, mut ours) = (Observed::default(), BTreeSet::new());
        mend(&wanted(), &mut observed, &mut ours);
        let theirs = [prefix("10.97.0.1/24"), prefix("198.51.100.0/24")];
        observed.addresses.insert(theirs[0]);
        observed.routes.insert(theirs[1]);
        let mut less = wanted();
        less.addresses.truncate(1);
        less.routes.truncate(1);
        mend(&less, &mut observed, &mut ours);
        let addresses = BTreeSet::from([less.addresses[0], theirs[0]]);
        assert_eq!(observed.addresses, addresses);
        assert!(observed.routes.contains(&theirs[1]) && observed.routes.contains(&less.routes[0]));
        assert!(!observed.routes.contains(&prefix("2001:db8::/32")));
    }

    proptest! {
        /// Whatever is taken away, and whatever the file says next: afterwards all that is wanted is there,
        /// nothing of ours that is not, and all that is others'.
        #[test]
        fn any_damage_is_mended_in_two_rounds(
            first in subsequence(vec![0, 1, 2], 0..=3),
            then in subsequence(vec![0, 1, 2], 0..=3),
            kept in subsequence((0..16).collect::<Vec<usize>>(), 0..=16),
            is_up: bool, mtu in 576_u32..1500, is_renamed: bool,
        ) {
            let all = wanted();
            let of = |indices: &[usize]| Wanted {
                addresses: indices.iter().map(|&at| all.addresses[at]).collect(),
                routes: indices.iter().map(|&at| all.routes[at]).collect(),
                ..all.clone()
            };
            let theirs = prefix("198.51.100.0/24");
            let (mut observed, mut ours) = (Observed::default(), BTreeSet::new());
            mend(&of(&first), &mut observed, &mut ours);
            let keep = |all: &mut BTreeSet<Prefix>, shift: usize| {
                let mut at = shift;
                all.retain(|_| { at += 1; kept.contains(&(at - 1)) });
            };
            let addresses = observed.addresses.clone();
            keep(&mut observed.addresses, 0);
            for gone in addresses.difference(&observed.addresses) {
                observed.routes.remove(&network(*gone));
            }
            keep(&mut observed.routes, 8);
            observed.is_up = is_up;
            if !is_up {
                observed.routes.clear();
            }
            observed.routes.insert(theirs);
            observed.mtu = mtu;
            if is_renamed {
                "eth7".clone_into(&mut observed.name);
            }
            let wanted = of(&then);
            prop_assert!(mend(&wanted, &mut observed, &mut ours) <= 2);
            prop_assert_eq!(&observed.addresses, &wanted.addresses.iter().copied().collect());
            prop_assert!(observed.routes.contains(&theirs));
            for route in &wanted.routes {
                prop_assert!(observed.routes.contains(route));
            }
            for route in &observed.routes {
                prop_assert!(*route == theirs || wants_route(&wanted, *route));
            }
        }
    }
}
