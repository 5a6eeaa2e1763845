//! Which of the interface's queues gets a packet: that of the worker who owns the peer it goes to.
//!
//! Without this the kernel gives a packet to the queue that wrote the last one of its flow, and guesses where there was
//! none. With it an eBPF program (`TUNSETSTEERINGEBPF`, Linux 4.16) looks the inner destination up in a map of prefixes and
//! returns the number of a queue. The map is the kernel's own trie (`BPF_MAP_TYPE_LPM_TRIE`), in which the longest prefix
//! decides, as it does in the hub's ([`mpt_core::hub::AllowedIps`]). What no prefix fits goes to the first queue. Nothing
//! hangs on the map: a packet in another's queue is handed over.
//!
//! To make map and program takes CAP_BPF in the first user namespace (before Linux 5.8 CAP_SYS_ADMIN). To change the map
//! through its descriptor takes nothing since Linux 5.19; before, it takes the same where `kernel.unprivileged_bpf_disabled`
//! is not 0. To give the program to an interface takes no more than the descriptor of a queue.

use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use mpt_core::hub::Prefix;

use super::Tun;
use super::offload::succeeded;

/// Prefixes that the map has room for: 16 for each of a hub's 65,536 peers. A prefix takes memory when it comes,
/// 64 bytes and as much again where it parts from another, and none before.
const MAX_PREFIXES: u32 = 1 << 20;

/// The program and its map. They go on at an interface that has the program when this is dropped.
#[derive(Debug)]
pub struct Steering {
    program: OwnedFd,
    map: OwnedFd,
}

impl Steering {
    /// Makes both: the map is empty, and no interface has the program yet.
    ///
    /// # Errors
    /// When the kernel has no such programs, or not for this thread (`EPERM`).
    pub fn new() -> io::Result<Steering> {
        let map = create_map()?;
        let program = load(&program(map.as_fd()))?;
        Ok(Steering { program, map })
    }

    /// Gives the program to the interface that has this queue, in place of what chose its queues before.
    ///
    /// # Errors
    /// When the kernel has no such programs for an interface.
    pub fn attach(&self, queue: &Tun) -> io::Result<()> {
        set_program(queue, self.program.as_raw_fd())
    }

    /// Takes the program away from the interface that has this queue, also one that an earlier process has left at a
    /// persistent interface: queues follow flows again.
    ///
    /// # Errors
    /// When the kernel has no such programs.
    pub fn detach(queue: &Tun) -> io::Result<()> {
        set_program(queue, NO_PROGRAM)
    }

    /// Exchanges prefixes: those in `now` lead to queues of these numbers from now on, and `former` ones to none, unless
    /// they are in `now` too. None of these is missing meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses it, for want of room or of a privilege; then part of it may be done.
    pub fn exchange(
        &self,
        former: impl IntoIterator<Item = Prefix>,
        now: impl IntoIterator<Item = (Prefix, usize)>,
    ) -> io::Result<()> {
        let now = now.into_iter();
        let now: HashMap<Key, u32> = now
            .map(|(prefix, queue)| (Key::new(prefix), queue as u32))
            .collect();
        for (key, queue) in &now {
            set_element(self.map.as_fd(), key, queue)?;
        }
        let former = former.into_iter().map(Key::new);
        former
            .filter(|key| !now.contains_key(key))
            .try_for_each(|key| remove_element(self.map.as_fd(), &key))
    }
}

/// `struct bpf_insn` (linux/bpf.h): code, both registers, offset of a jump or an access, immediate.
#[repr(C)]
struct Line {
    code: u8,
    /// Source in the upper half and destination in the lower one, or the other way round: as C lays out bit fields.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register: 0 has results, 1 to 5 are arguments, 6 to 9 outlive calls.
type Register = u8;
/// The one that has the stack's end.
const STACK: Register = 10;

const CLASS_LD: u8 = 0x00;
const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_JMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const BYTE: u8 = 0x10;
const WORD: u8 = 0x00;
const DOUBLE: u8 = 0x18;
const ABSOLUTE: u8 = 0x20;
const MEMORY: u8 = 0x60;
const FROM_REGISTER: u8 = 0x08;
const ADD: u8 = 0x00;
const SHIFT_RIGHT: u8 = 0x70;
const MOVE: u8 = 0xb0;
const ALWAYS: u8 = 0x00;
const IF_EQUAL: u8 = 0x10;
const UNLESS_EQUAL: u8 = 0x50;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
/// The immediate is a map's descriptor (`BPF_PSEUDO_MAP_FD`).
const IS_MAP: Register = 1;

/// Functions of the kernel's (`enum bpf_func_id`).
const MAP_LOOKUP_ELEM: i32 = 1;
const SKB_LOAD_BYTES: i32 = 26;

/// Where the destination stands in the header, in bytes, and how long it is (RFC 791 §3.1, RFC 8200 §3).
const IPV4_DESTINATION: i32 = 16;
const IPV6_DESTINATION: i32 = 24;
const IPV4_LEN: i32 = 4;
const IPV6_LEN: i32 = 16;

/// What the map is asked with (`struct bpf_lpm_trie_key`): a length in bits, and what it is the length of. IP's version comes
/// first there, so that one map has both kinds of addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    bits: u32,
    version: u32,
    /// An IPv4 one has the first four bytes.
    address: [u8; 16],
}

/// Bits of a version.
const VERSION_BITS: u32 = u32::BITS;

impl Key {
    /// A length that no address has counts as the whole address, as in the hub's own trie.
    fn new((address, len): Prefix) -> Key {
        let (version, most, address) = match address {
            IpAddr::V4(address) => (4, u32::BITS, u128::from(u32::from(address)) << 96),
            IpAddr::V6(address) => (6, u128::BITS, u128::from(address)),
        };
        let len = u32::from(len).min(most);
        let host = u128::MAX.checked_shr(len).unwrap_or(0);
        Key {
            bits: VERSION_BITS + len,
            version,
            address: (address & !host).to_be_bytes(),
        }
    }
}

/// Where the program keeps the key on its stack: this far from the end, in bytes.
const KEY_AT: i16 = -(size_of::<Key>() as i16);
const VERSION_AT: i16 = KEY_AT + 4;
const ADDRESS_AT: i16 = KEY_AT + 8;

/// The program. It ends with 0, the first queue, where a packet ends before what is read.
fn program(map: BorrowedFd<'_>) -> [Line; 30] {
    let line = |code, destination: Register, source: Register, offset, immediate| Line {
        code,
        registers: match cfg!(target_endian = "little") {
            true => source << 4 | destination,
            false => destination << 4 | source,
        },
        offset,
        immediate,
    };
    let set = |register, value| line(CLASS_ALU64 | MOVE, register, 0, 0, value);
    let add = |register, value| line(CLASS_ALU64 | ADD, register, 0, 0, value);
    let copy = |to, from| line(CLASS_ALU64 | MOVE | FROM_REGISTER, to, from, 0, 0);
    let store = |size, at, value| line(CLASS_ST | MEMORY | size, STACK, 0, at, value);
    // Over so many lines, by what is in register 0.
    let jump = |when, value, over| line(CLASS_JMP | when, 0, 0, over, value);
    let call = |function| line(CLASS_JMP | CALL, 0, 0, 0, function);
    let end = || line(CLASS_JMP | EXIT, 0, 0, 0, 0);
    let bits = |len: i32| VERSION_BITS as i32 + 8 * len;
    [
        // The packet. Where its bytes are read by their place, it has to be in register 6.
        copy(6, 1),
        // IP's version.
        line(CLASS_LD | ABSOLUTE | BYTE, 0, 0, 0, 0),
        line(CLASS_ALU64 | SHIFT_RIGHT, 0, 0, 0, 4),
        line(CLASS_STX | MEMORY | WORD, STACK, 0, VERSION_AT, 0),
        store(DOUBLE, ADDRESS_AT, 0),
        store(DOUBLE, ADDRESS_AT + 8, 0),
        jump(IF_EQUAL, 4, 5),
        // To the last two lines.
        jump(UNLESS_EQUAL, 6, 20),
        store(WORD, KEY_AT, bits(IPV6_LEN)),
        set(2, IPV6_DESTINATION),
        set(4, IPV6_LEN),
        jump(ALWAYS, 0, 3),
        store(WORD, KEY_AT, bits(IPV4_LEN)),
        set(2, IPV4_DESTINATION),
        set(4, IPV4_LEN),
        // The destination becomes the key's address.
        copy(1, 6),
        copy(3, STACK),
        add(3, ADDRESS_AT.into()),
        call(SKB_LOAD_BYTES),
        // To the last two lines.
        jump(UNLESS_EQUAL, 0, 8),
        // One that takes two lines.
        line(CLASS_LD | DOUBLE, 1, IS_MAP, 0, map.as_raw_fd()),
        line(0, 0, 0, 0, 0),
        copy(2, STACK),
        add(2, KEY_AT.into()),
        call(MAP_LOOKUP_ELEM),
        // It is nobody's: 0.
        jump(IF_EQUAL, 0, 1),
        line(CLASS_LDX | MEMORY | WORD, 0, 0, 0, 0),
        end(),
        set(0, 0),
        end(),
    ]
}

/// Commands of bpf(2) and what they name (linux/bpf.h).
const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const MAP_DELETE_ELEM: c_int = 3;
const PROG_LOAD: c_int = 5;
const MAP_TYPE_LPM_TRIE: u32 = 11;
const PROG_TYPE_SOCKET_FILTER: u32 = 1;
/// The map takes memory as prefixes come: there is no other of its type.
const F_NO_PREALLOC: u32 = 1;
/// All functions that are called are for programs under any licence.
const LICENCE: &std::ffi::CStr = c"MIT";
/// In a program's place: none (`TUNSETSTEERINGEBPF`).
const NO_PROGRAM: RawFd = -1;

/// The beginning of `union bpf_attr`, as far as it is used: pairs of numbers, and addresses.
type Attributes = [u64; 6];

/// Two numbers that stand one behind the other.
fn pair(first: u32, second: u32) -> u64 {
    let (first, second) = (first.to_ne_bytes(), second.to_ne_bytes());
    let [a, b, c, d] = first;
    let [e, f, g, h] = second;
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// What is there is read by the kernel.
fn address<T: ?Sized>(of: &T) -> u64 {
    (&raw const *of).cast::<u8>().expose_provenance() as u64
}

fn create_map() -> io::Result<OwnedFd> {
    let key = pair(MAP_TYPE_LPM_TRIE, size_of::<Key>() as u32);
    let value = pair(size_of::<u32>() as u32, MAX_PREFIXES);
    let attributes = [key, value, pair(F_NO_PREALLOC, 0), 0, 0, 0];
    // SAFETY: the attributes have no addresses.
    let made = unsafe { bpf(MAP_CREATE, &attributes) }?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

fn load(lines: &[Line]) -> io::Result<OwnedFd> {
    let kind = pair(PROG_TYPE_SOCKET_FILTER, lines.len() as u32);
    let attributes = [kind, address(lines), address(LICENCE), 0, 0, 0];
    // SAFETY: the addresses are of so many lines and of a text that ends in zero. Both live through the call, which only
    // reads them.
    let made = unsafe { bpf(PROG_LOAD, &attributes) }?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

fn set_element(map: BorrowedFd<'_>, key: &Key, queue: &u32) -> io::Result<()> {
    let map = pair(map.as_raw_fd() as u32, 0);
    let attributes = [map, address(key), address(queue), 0, 0, 0];
    // SAFETY: the addresses are of a key and a value of the sizes that the map was made with. Both live through the
    // call, which only reads them.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Takes a prefix away, if it is there.
fn remove_element(map: BorrowedFd<'_>, key: &Key) -> io::Result<()> {
    let map = pair(map.as_raw_fd() as u32, 0);
    let attributes = [map, address(key), 0, 0, 0, 0];
    // SAFETY: the address is of a key of the size that the map was made with. It lives through the call, which only
    // reads it.
    match unsafe { bpf(MAP_DELETE_ELEM, &attributes) } {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map(drop),
    }
}

/// Asks bpf(2).
///
/// # Safety
/// The addresses among the attributes are of what the command reads.
unsafe fn bpf(command: c_int, attributes: &Attributes) -> io::Result<c_int> {
    let (at, len) = (&raw const *attributes, size_of::<Attributes>());
    // SAFETY: the kernel reads so many bytes there, which live through the call; for the rest the caller answers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, at, len) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result as c_int)
    }
}

fn set_program(queue: &Tun, program: RawFd) -> io::Result<()> {
    let request = libc::TUNSETSTEERINGEBPF;
    // SAFETY: the kernel reads one `int`, which lives through the call.
    let result = unsafe { libc::ioctl(queue.as_raw_fd(), request, &raw const program) };
    succeeded(result)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::Command;

    use mpt_core::hub::{AllowedIps, HubSlot};
    use mpt_core::wire::ip::Packet;
    use mpt_core::wire::vnet;
    use net::unit::in_network_namespace_as_root;
    use proptest::prelude::*;

    use super::super::{MAX_READ, device};
    use super::*;
    use crate::Offload;

    /// Whether the test may have programs; else it says why not. One that the kernel finds wrong is none of that.
    fn is_allowed() -> bool {
        match Steering::new() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                eprintln!("skipped: bpf(2): {error}");
                false
            }
            made => made.map(|_| true).unwrap(),
        }
    }

    fn prefix(text: &str) -> Prefix {
        let (address, len) = text.split_once('/').unwrap();
        (address.parse().unwrap(), len.parse().unwrap())
    }

    fn to<const N: usize>(these: [(&str, usize); N]) -> [(Prefix, usize); N] {
        these.map(|(text, queue)| (prefix(text), queue))
    }

    /// An interface with so many queues, up, to which all addresses lead.
    struct Queues(Vec<Tun>);

    impl Queues {
        fn open(offload: Offload, count: usize) -> Queues {
            let queues = Tun::open_queues("mpt-test", offload, &device, count).unwrap();
            assert_eq!(queues.len(), count);
            for words in [
                "address add 10.99.0.1/32 dev mpt-test",
                "address add fd99::1/128 dev mpt-test nodad",
                "link set mpt-test up",
                "route add default dev mpt-test",
                "-6 route add default dev mpt-test",
            ] {
                let done = Command::new("ip").args(words.split(' ')).status();
                assert!(done.is_ok_and(|status| status.success()), "ip {words}");
            }
            Queues(queues)
        }

        /// Which queue what is sent to an address comes to, by a new flow.
        fn of(&self, address: &str) -> usize {
            let address: IpAddr = address.parse().unwrap();
            let own = match address {
                IpAddr::V4(_) => "10.99.0.1:0",
                IpAddr::V6(_) => "[fd99::1]:0",
            };
            let host = UdpSocket::bind(own).unwrap();
            host.send_to(b"ping", (address, 5000)).unwrap();
            let mut came = Vec::new();
            for (number, queue) in self.0.iter().enumerate() {
                let mut bytes = vec![0; MAX_READ];
                while let Ok(len) = queue.recv(&mut bytes) {
                    let header = if queue.has_header() { vnet::LEN } else { 0 };
                    let packet = Packet::parse(&bytes[header..len]).unwrap();
                    // The host may ask for routers and groups besides.
                    came.extend((packet.destination() == address).then_some(number));
                }
            }
            assert_eq!(came.len(), 1, "to {address}: {came:?}");
            came[0]
        }
    }

    #[test]
    fn a_packet_comes_to_the_queue_of_the_longest_prefix() {
        if !is_allowed() {
            return;
        }
        in_network_namespace_as_root(
            "tun::steering::tests::a_packet_comes_to_the_queue_of_the_longest_prefix",
            async {
                for offload in [Offload::Off, Offload::Auto] {
                    let queues = Queues::open(offload, 4);
                    let steering = Steering::new().unwrap();
                    steering.attach(&queues.0[2]).unwrap();
                    let all = to([
                        ("0.0.0.0/0", 1),
                        ("10.20.0.0/16", 2),
                        ("10.20.7.9/24", 3),
                        ("10.20.7.7/32", 1),
                        ("fd00::/8", 2),
                        ("fd20:0:0:7::/64", 3),
                        ("fd20:0:0:7::7/128", 1),
                    ]);
                    steering.exchange([], all).unwrap();
                    for _ in 0..5 {
                        for (address, queue) in [
                            ("10.20.7.7", 1),
                            ("10.20.7.8", 3),
                            ("10.20.8.7", 2),
                            ("192.0.2.1", 1),
                            ("fd20:0:0:7::7", 1),
                            ("fd20:0:0:7::8", 3),
                            ("fd20:0:0:8::7", 2),
                            // Of nobody.
                            ("2001:db8::1", 0),
                        ] {
                            assert_eq!(queues.of(address), queue, "{address}");
                        }
                    }
                    // A prefix that is gone leaves the shorter one, one that moves has moved, host bits are none.
                    let former = [
                        prefix("10.20.7.7/32"),
                        prefix("10.20.7.0/24"),
                        prefix("fd20:0:0:7::7/128"),
                        prefix("192.0.2.0/24"),
                    ];
                    let now = to([("10.20.7.0/24", 2), ("fd20:0:0:7::1/64", 0)]);
                    steering.exchange(former, now).unwrap();
                    for (address, queue) in [
                        ("10.20.7.7", 2),
                        ("10.20.7.8", 2),
                        ("192.0.2.1", 1),
                        ("fd20:0:0:7::7", 0),
                    ] {
                        assert_eq!(queues.of(address), queue, "{address}");
                    }
                    steering.exchange([prefix("0.0.0.0/0")], []).unwrap();
                    assert_eq!(queues.of("192.0.2.1"), 0);
                }
            },
        );
    }

    #[test]
    fn the_program_stays_without_its_owner_until_it_is_taken_away() {
        if !is_allowed() {
            return;
        }
        in_network_namespace_as_root(
            "tun::steering::tests::the_program_stays_without_its_owner_until_it_is_taken_away",
            async {
                let queues = Queues::open(Offload::Auto, 3);
                let steering = Steering::new().unwrap();
                steering.attach(&queues.0[0]).unwrap();
                steering.exchange([], to([("0.0.0.0/0", 2)])).unwrap();
                drop(steering);
                let all = || -> Vec<usize> {
                    let addresses = (1..50).map(|host| format!("10.20.0.{host}"));
                    addresses.map(|address| queues.of(&address)).collect()
                };
                assert!(all().iter().all(|queue| *queue == 2));
                Steering::detach(&queues.0[1]).unwrap();
                assert!(all().iter().any(|queue| *queue != 2), "by flow");
            },
        );
    }

    /// Peers that come, go and change in turn, from a few networks so that prefixes lie in each other: each peer's own do,
    /// and all lie in the rest.
    #[test]
    fn the_map_says_what_the_hub_says_while_peers_come_and_go() {
        if !is_allowed() {
            return;
        }
        in_network_namespace_as_root(
            "tun::steering::tests::the_map_says_what_the_hub_says_while_peers_come_and_go",
            async {
                const PEERS: usize = 8;
                let queues = Queues::open(Offload::Auto, 3);
                let steering = Steering::new().unwrap();
                steering.attach(&queues.0[0]).unwrap();
                let mut allowed = AllowedIps::default();
                let mut of = vec![Vec::<Prefix>::new(); PEERS];
                let mut random = 7_u32;
                let mut next = move |below: usize| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (random >> 16) as usize % below
                };
                for _ in 0..60 {
                    let number = next(PEERS);
                    let all = [
                        format!("10.20.{number}.0/{}", 24 + next(5)),
                        format!("10.20.{number}.{}/32", next(16)),
                        format!("fd99:{number}::/{}", 32 + next(96)),
                        format!("fd99:{number}::{:x}/128", next(16)),
                    ];
                    let mut own: Vec<Prefix> = all.iter().map(|text| prefix(text)).collect();
                    own.retain(|_| next(3) > 0);
                    if number == 0 {
                        own.push(prefix("0.0.0.0/0"));
                    }
                    let former = std::mem::replace(&mut of[number], own.clone());
                    former.iter().for_each(|prefix| allowed.remove(*prefix));
                    let slot = HubSlot::new(number).unwrap();
                    for prefix in &own {
                        allowed.insert(*prefix, slot).unwrap();
                    }
                    let now = own.into_iter().map(|prefix| (prefix, number % 3));
                    steering.exchange(former, now).unwrap();
                    for _ in 0..4 {
                        let (peer, host) = (next(PEERS + 1), next(16));
                        for address in [
                            format!("10.20.{peer}.{host}"),
                            format!("fd99:{peer}::{host:x}"),
                        ] {
                            let owner = allowed.peer_of(address.parse().unwrap());
                            let queue = owner.map_or(0, |slot| slot.number() % 3);
                            assert_eq!(queues.of(&address), queue, "{address} of {owner:?}");
                        }
                    }
                }
            },
        );
    }

    fn prefixes() -> impl Strategy<Value = Prefix> {
        let v4 = (any::<[u8; 4]>(), 0..=32_u8).prop_map(|(address, len)| (address.into(), len));
        let v6 = (any::<[u8; 16]>(), 0..=128_u8).prop_map(|(address, len)| (address.into(), len));
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn a_key_has_the_prefix_and_no_more((address, len) in prefixes()) {
            let key = Key::new((address, len));
            let bytes = match address {
                IpAddr::V4(address) => [&address.octets()[..], &[0; 12]].concat(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            prop_assert_eq!(key.bits, 32 + u32::from(len));
            prop_assert_eq!(key.version, if address.is_ipv4() { 4 } else { 6 });
            for bit in 0..128 {
                let of = |bytes: &[u8]| bytes[bit / 8] >> (7 - bit % 8) & 1;
                let expected = if bit < len.into() { of(&bytes) } else { 0 };
                prop_assert_eq!(of(&key.address), expected, "bit {}", bit);
            }
            let longer = Key::new((address, u8::MAX));
            prop_assert_eq!(longer.bits, if address.is_ipv4() { 64 } else { 160 });
        }
    }
}
