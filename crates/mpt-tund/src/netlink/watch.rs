//! Notifications about links, addresses, routes, rules and filters, as a stream of changes.
//!
//! One socket subscribes and also asks for all links and addresses at the start, so that the state
//! it begins with and the notifications come in the kernel's own order. When notifications come
//! faster than they are read, the kernel drops some and says so (`ENOBUFS`); then everything is
//! asked for again, and the difference to what was known is told as if it had been notified.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use mpt_core::time::Time;

use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, SocketAddr, TokioSocket};

use super::links::{Change, Links};
use super::wire::{self, Content};
use crate::clock;

/// What the socket subscribes to.
const GROUPS: libc::c_int = libc::RTMGRP_LINK
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_ROUTE
    | libc::RTMGRP_IPV4_RULE
    | RTMGRP_IPV6_RULE
    | RTMGRP_IPV4_NETCONF;

/// `RTNLGRP_IPV6_RULE` (19) as a bit; `linux/rtnetlink.h` names no such constant.
const RTMGRP_IPV6_RULE: libc::c_int = 1 << (19 - 1);
/// `RTNLGRP_IPV4_NETCONF` (24) likewise.
const RTMGRP_IPV4_NETCONF: libc::c_int = 1 << (24 - 1);

/// Dumps begun in a row because something changed meanwhile; then the last has to do for a while: what it did not
/// mention stays.
const MAX_RESTARTS: u32 = 8;
/// And after this long everything is asked for once more, as what failed is tried again (`crate::wanted::retry`).
const LATE_RETRY: Duration = Duration::from_secs(1);

/// Datagrams read in one go by [`LinkWatch::catch_up`].
const MAX_DATAGRAMS: usize = 256;

/// Bytes of a datagram: twice what the kernel puts in one.
const DATAGRAM: usize = 64 * 1024;

/// The host's links and addresses, kept current.
pub(crate) struct LinkWatch {
    socket: TokioSocket,
    links: Links,
    datagram: Vec<u8>,
    dump: Dump,
    /// Number of the last request.
    sequence: u32,
    /// The dump under way is not of one piece and has to be begun again.
    incomplete: bool,
    restarts: u32,
    /// When everything is asked for again, as the last dump was not of one piece.
    retry_at: Option<Time>,
}

/// Where the enquiry about everything stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dump {
    Links,
    Addresses,
    Complete,
}

impl LinkWatch {
    /// Subscribes and reads all links and addresses, which are also the first changes to be told.
    ///
    /// # Errors
    /// If there is no netlink socket to be had (no privilege is needed).
    pub(crate) async fn open() -> io::Result<LinkWatch> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        let subscription = SocketAddr::new(0, GROUPS.cast_unsigned());
        socket.socket_mut().bind(&subscription)?;
        let mut watch = LinkWatch {
            socket,
            links: Links::default(),
            datagram: Vec::with_capacity(DATAGRAM),
            dump: Dump::Complete,
            sequence: 0,
            incomplete: false,
            restarts: 0,
            retry_at: None,
        };
        watch.begin_dump()?;
        while watch.dump != Dump::Complete {
            watch.receive().await?;
        }
        Ok(watch)
    }

    /// The next change. Waits for it; may be cancelled without loss.
    ///
    /// # Errors
    /// If the socket fails; lost notifications are no error.
    pub(crate) async fn next(&mut self) -> io::Result<Change> {
        loop {
            if let Some(change) = self.links.take_change() {
                return Ok(change);
            }
            self.receive().await?;
        }
    }

    /// Takes in what the kernel has told by now, without waiting: what is known is then as new as
    /// anything that this process did before. To be called a few times a second, for what is asked again.
    ///
    /// # Errors
    /// If the socket fails; lost notifications are no error.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        let now = clock::now();
        if self.dump == Dump::Complete && self.retry_at.take_if(|at| *at <= now).is_some() {
            self.begin_dump()?;
        }
        // A host that changes faster than this is read must not hold up the rest.
        for _ in 0..MAX_DATAGRAMS {
            self.datagram.clear();
            let socket = self.socket.socket_ref();
            let received = socket.recv_from(&mut self.datagram, libc::MSG_DONTWAIT);
            if received
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            {
                break;
            }
            self.take(received.map(|(_, sender)| sender))?;
        }
        Ok(())
    }

    /// The oldest change not yet told, if there is one.
    pub(crate) fn take_change(&mut self) -> Option<Change> {
        self.links.take_change()
    }

    /// The links and addresses themselves.
    pub(crate) fn table(&self) -> &Links {
        &self.links
    }

    /// The link of that index.
    #[cfg(test)]
    pub(crate) fn link(&self, index: u32) -> Option<&super::links::Link> {
        self.links.link(index)
    }

    async fn receive(&mut self) -> io::Result<()> {
        self.datagram.clear();
        let LinkWatch {
            socket, datagram, ..
        } = self;
        let received = poll_fn(|cx| socket.poll_recv_from(cx, datagram)).await;
        self.take(received)
    }

    /// Takes in what was received from `sender`.
    fn take(&mut self, received: io::Result<SocketAddr>) -> io::Result<()> {
        match received {
            Ok(sender) if sender.port_number() == 0 => self.read(),
            // Not from the kernel.
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                tracing::debug!("netlink notifications were lost; reading all links again");
                self.recover()
            }
            Err(error) => Err(error),
        }
    }

    /// Takes in the datagram just received.
    fn read(&mut self) -> io::Result<()> {
        let mut done = false;
        for message in wire::messages(&self.datagram) {
            self.incomplete |= message.interrupted;
            let answers = self.dump != Dump::Complete && message.sequence == self.sequence;
            match message.content {
                told @ (Content::Link { .. }
                | Content::Address { .. }
                | Content::Route(_)
                | Content::Rule
                | Content::Settings(_)) => self.links.hear(told),
                Content::Done => done |= answers,
                Content::Error(errno) if answers && errno != 0 => {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                Content::Error(_) => {}
            }
        }
        if done { self.advance() } else { Ok(()) }
    }

    /// One of the two dumps ended.
    fn advance(&mut self) -> io::Result<()> {
        match self.dump {
            _ if self.incomplete && self.restarts < MAX_RESTARTS => {
                self.restarts += 1;
                self.begin_dump()
            }
            Dump::Links => {
                self.dump = Dump::Addresses;
                self.request(libc::RTM_GETADDR)
            }
            Dump::Addresses => {
                self.dump = Dump::Complete;
                self.restarts = 0;
                self.links.end_dump(!self.incomplete);
                if self.incomplete {
                    self.retry_at = Some(clock::now() + LATE_RETRY);
                }
                Ok(())
            }
            Dump::Complete => Ok(()),
        }
    }

    /// Notifications were lost: everything has to be asked for again, but one dump at a time. Until its queue is
    /// empty, the kernel drops all further ones without a word. So what a dump says that is begun here may be old
    /// when it is read: the one that is begun after its end counts.
    fn recover(&mut self) -> io::Result<()> {
        if self.dump == Dump::Complete {
            self.begin_dump()?;
        }
        self.incomplete = true;
        Ok(())
    }

    fn begin_dump(&mut self) -> io::Result<()> {
        self.incomplete = false;
        self.dump = Dump::Links;
        self.links.begin_dump();
        self.request(libc::RTM_GETLINK)
    }

    fn request(&mut self, kind: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = wire::dump_request(kind, libc::AF_UNSPEC, self.sequence);
        let kernel = SocketAddr::new(0, 0);
        let socket = self.socket.socket_ref();
        socket.send_to(&request, &kernel, 0).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::links::LinkEvent;
    use super::*;
    use crate::config::Offload;
    use crate::netlink::Netlink;
    use crate::tun::Tun;
    use net::unit::in_network_namespace;
    use std::net::IpAddr;

    /// The next change that `wanted` accepts, within a few seconds.
    async fn until(watch: &mut LinkWatch, wanted: impl Fn(&Change) -> bool) -> Change {
        let search = async {
            loop {
                let change = watch.next().await.unwrap();
                if wanted(&change) {
                    return change;
                }
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(5), search).await;
        found.expect("no such change came")
    }

    fn is_link(change: &Change, state: (&str, bool, bool)) -> bool {
        matches!(change, Change::Link(LinkEvent { name, up, deleted, .. })
            if (name.as_str(), *up, *deleted) == state)
    }

    #[tokio::test]
    async fn loopback_is_known_from_the_start_and_has_its_address() {
        let mut watch = LinkWatch::open().await.unwrap();
        let index = watch.table().index_of("lo");
        let link = watch.link(index.unwrap()).unwrap();
        assert_eq!(link.name, "lo");
        if link.up {
            let by_address = watch.table().index_with("127.0.0.1".parse().unwrap());
            assert_eq!(by_address, index);
        }
        until(
            &mut watch,
            |change| matches!(change, Change::Link(event) if event.name == "lo"),
        )
        .await;
    }

    #[test]
    fn a_link_is_followed_from_its_making_to_its_end() {
        in_network_namespace(
            "netlink::watch::tests::a_link_is_followed_from_its_making_to_its_end",
            async {
                let home: IpAddr = "10.99.0.1".parse().unwrap();
                let mut watch = LinkWatch::open().await.unwrap();
                assert_eq!(watch.table().index_with(home), None);
                let tun = Tun::open("mpt-test", Offload::Off).unwrap();
                until(&mut watch, |c| is_link(c, ("mpt-test", false, false))).await;

                let netlink = Netlink::open().unwrap();
                let prefix = (home, 30);
                let index = netlink.configure("mpt-test", &[prefix], 1400, &[]).await;
                let index = index.unwrap();
                until(&mut watch, |c| is_link(c, ("mpt-test", true, false))).await;
                assert_eq!(watch.table().index_with(home), Some(index));
                assert!(watch.link(index).unwrap().up);

                netlink.remove_address(index, prefix).await.unwrap();
                let gone = Change::Address {
                    address: home,
                    index,
                    present: false,
                };
                until(&mut watch, |change| *change == gone).await;
                assert_eq!(watch.table().index_with(home), None);

                drop(tun);
                until(&mut watch, |c| is_link(c, ("mpt-test", false, true))).await;
                assert!(watch.link(index).is_none());
            },
        );
    }

    #[test]
    fn what_was_missed_while_notifications_were_lost_is_told_afterwards() {
        in_network_namespace(
            "netlink::watch::tests::what_was_missed_while_notifications_were_lost_is_told_afterwards",
            async {
                let mut watch = LinkWatch::open().await.unwrap();
                // Room for what one new device brings, and for little more.
                watch.socket.socket_ref().set_rx_buf_sz(8192).unwrap();
                let netlink = Netlink::open().unwrap();
                let gone = Tun::open("mpt-gone", Offload::Off).unwrap();
                until(&mut watch, |c| is_link(c, ("mpt-gone", false, false))).await;
                let _stays = Tun::open("mpt-stays", Offload::Off).unwrap();
                let index = netlink.interface_index("mpt-stays").await.unwrap();
                // Far more notifications than the buffer holds.
                for mtu in 1300..1400 {
                    netlink.set_mtu(index, mtu).await.unwrap();
                }
                drop(gone);
                until(&mut watch, |c| is_link(c, ("mpt-gone", false, true))).await;
                assert_eq!(watch.dump, Dump::Complete);
                assert!(watch.links.index_of("mpt-stays").is_some());
            },
        );
    }

    #[tokio::test]
    async fn after_a_loss_the_dump_counts_that_is_begun_when_the_queue_was_empty() {
        let mut watch = LinkWatch::open().await.unwrap();
        let before = watch.sequence;
        watch.recover().unwrap();
        while watch.dump != Dump::Complete {
            watch.receive().await.unwrap();
        }
        // The links twice, then the addresses.
        assert!(watch.sequence >= before + 3, "one dump and no more");
        assert!(!watch.incomplete);
    }

    #[tokio::test]
    async fn after_a_storm_that_outlasts_the_dumps_everything_is_asked_for_once_more() {
        let mut watch = LinkWatch::open().await.unwrap();
        watch.begin_dump().unwrap();
        (watch.incomplete, watch.restarts) = (true, MAX_RESTARTS);
        while watch.dump != Dump::Complete {
            watch.receive().await.unwrap();
        }
        // As if it had been missed.
        watch.links = Links::default();
        let began = clock::now();
        while watch.table().index_of("lo").is_none() {
            let waited = clock::now().since(began);
            assert!(waited < 5 * LATE_RETRY, "nothing was asked for");
            watch.catch_up().unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(clock::now().since(began) > LATE_RETRY / 2, "at once");
        assert!(!watch.incomplete && watch.retry_at.is_none());
    }
}
