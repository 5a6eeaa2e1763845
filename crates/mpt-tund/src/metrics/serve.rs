//! HTTP for whoever may connect, who may be anybody: each gets little, and none of it costs a tunnel anything.
//!
//! A connection is for one request, has a bounded head, and is over after [`LONGEST`]. Of more than
//! [`MAX_CONNECTIONS`] the oldest goes, so that a scraper gets in beside connections that say nothing; and new ones are
//! taken up at a bounded pace. Bodies are not read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use futures_util::future::{AbortHandle, abortable};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::Socket;
use super::page::{Form, Pages, count};
use crate::clock;
use crate::wanted::retry::Ration;

/// Connections at once.
const MAX_CONNECTIONS: usize = 8;
/// How long a connection may take, request and answer together: as long as Prometheus waits where nothing is said.
const LONGEST: Duration = Duration::from_secs(10);
/// Longest head of a request, in bytes; what is less hyper does not take.
const MAX_HEAD: usize = 8192;
/// Most lines of one.
const MAX_HEADERS: usize = 64;
/// Connections that may be taken up one after the other, …
const BURST: u32 = 32;
/// … and the time after which there may be one more.
const INTERVAL: Duration = Duration::from_millis(20);
/// Rest after connections could not be accepted: mostly there are no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What is listened at.
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Serves until the future is dropped.
///
/// # Errors
/// When the runtime cannot watch the socket; nothing that happens later ends it.
pub(super) async fn serve(socket: Socket, pages: &Pages) -> io::Result<()> {
    let listener = match socket {
        Socket::Tcp(socket) => Listener::Tcp(TcpListener::from_std(socket)?),
        Socket::Unix(socket) => Listener::Unix(UnixListener::from_std(socket)?),
    };
    let ration = RefCell::new(Ration::new(BURST, INTERVAL));
    let mut connections = FuturesUnordered::new();
    // Those that are open, the oldest first.
    let mut open: VecDeque<(u64, AbortHandle)> = VecDeque::new();
    let mut number = 0;
    loop {
        tokio::select! {
            // In this order: a place that has become free is given to who comes at that moment.
            biased;
            Some(ended) = connections.next() => {
                open.retain(|(number, _)| *number != ended);
            }
            stream = accept(&listener, &ration) => {
                if open.len() >= MAX_CONNECTIONS
                    && let Some((_, oldest)) = open.pop_front()
                {
                    oldest.abort();
                    count(&pages.counts.cut_off);
                }
                number += 1;
                let own = number;
                let (conversation, handle) = abortable(converse(stream, pages));
                open.push_back((own, handle));
                connections.push(async move {
                    // Cut off, or at its end.
                    let _ = conversation.await;
                    own
                });
            }
        }
    }
}

/// The next connection, however long that takes.
async fn accept(listener: &Listener, ration: &RefCell<Ration>) -> Stream {
    while !ration.borrow_mut().take(clock::now()) {
        sleep(INTERVAL).await;
    }
    loop {
        let accepted = match listener {
            Listener::Tcp(listener) => listener
                .accept()
                .await
                .map(|(stream, _)| Stream::Tcp(stream)),
            Listener::Unix(listener) => listener
                .accept()
                .await
                .map(|(stream, _)| Stream::Unix(stream)),
        };
        match accepted {
            Ok(stream) => return stream,
            Err(error) => {
                debug!("cannot accept connections for metrics: {error}");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn converse(stream: Stream, pages: &Pages) {
    match stream {
        Stream::Tcp(stream) => serve_one(stream, pages).await,
        Stream::Unix(stream) => serve_one(stream, pages).await,
    }
}

/// One request and its answer.
async fn serve_one(stream: impl AsyncRead + AsyncWrite + Unpin, pages: &Pages) {
    let service =
        service_fn(|request| async move { Ok::<_, Infallible>(answer(&request, pages).await) });
    let mut server = http1::Builder::new();
    server
        .keep_alive(false)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS);
    let served = server.serve_connection(TokioIo::new(stream), service);
    match timeout(LONGEST, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            count(&pages.counts.malformed);
            debug!("connection for metrics: {error}");
        }
        Err(_) => count(&pages.counts.slow),
    }
}

async fn answer(request: &Request<Incoming>, pages: &Pages) -> Response<String> {
    if request.uri().path() != "/metrics" {
        count(&pages.counts.not_found);
        return told(StatusCode::NOT_FOUND, "The metrics are at /metrics.\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        count(&pages.counts.not_found);
        let mut response = told(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n");
        let methods = hyper::header::HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, methods);
        return response;
    }
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let form = Form::accepted(accept.unwrap_or_default());
    match pages.page(form).await {
        Ok(page) => {
            count(&pages.counts.served);
            response(StatusCode::OK, form.content_type(), page)
        }
        Err(_) => told(StatusCode::SERVICE_UNAVAILABLE, "mpt-tund is stopping.\n"),
    }
}

fn told(status: StatusCode, text: &str) -> Response<String> {
    response(status, "text/plain; charset=utf-8", text.to_owned())
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let content_type = hyper::header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Asked, Sample};
    use mpt_core::control::Status;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::mpsc;

    const GOOD: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

    /// Runs `client` against a tunnel called mpt0, over a Unix socket: what is sent there has arrived at once, and time
    /// stands still unless all wait; returns what became of its connections.
    fn with_pages(client: impl AsyncFnOnce(&Path)) -> [(&'static str, u64); 5] {
        crate::testing::paused_runtime().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let address = folder.path().join("metrics.sock");
            let socket = std::os::unix::net::UnixListener::bind(&address).unwrap();
            socket.set_nonblocking(true).unwrap();
            let (measuring, mut questions) = mpsc::channel::<Asked>(4);
            let tunnels = Arc::new(Mutex::new(vec!["mpt0".to_owned()]));
            let pages = Pages::new(tunnels, measuring);
            let answers = async {
                while let Some(asked) = questions.recv().await {
                    let mut status = Status::default();
                    status.tunnel.name = "mpt0".to_owned();
                    let _ = asked.reply.send(vec![Sample::new(status, None)]);
                }
            };
            tokio::select! {
                ended = serve(Socket::Unix(socket), &pages) => panic!("{ended:?}"),
                () = answers => panic!("nobody asks any more"),
                () = client(&address) => {}
            }
            pages.counts.all()
        })
    }

    async fn say(address: &Path, words: &str) -> String {
        let mut stream = UnixStream::connect(address).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        hear(&mut stream).await
    }

    async fn hear(stream: &mut UnixStream) -> String {
        let mut heard = Vec::new();
        // A connection that is cut off may be reset.
        let _ = stream.read_to_end(&mut heard).await;
        String::from_utf8(heard).unwrap()
    }

    fn counted(counts: [(&'static str, u64); 5]) -> [u64; 5] {
        counts.map(|(_, count)| count)
    }

    #[test]
    fn a_page_is_served_once_a_connection_in_the_form_that_is_asked_for() {
        let counts = with_pages(async |address| {
            let plain = say(address, &GOOD.repeat(2)).await;
            assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
            assert!(plain.contains("text/plain; version=0.0.4"), "{plain}");
            assert!(
                plain.contains("\nmpt_tunnel_running{tunnel=\"mpt0\"} 1\n"),
                "{plain}"
            );
            assert_eq!(plain.matches("HTTP/1.1").count(), 1);
            let asked = GOOD.replace("Host", "Accept: application/openmetrics-text\r\nHost");
            let open = say(address, &asked).await;
            assert!(
                open.contains("application/openmetrics-text; version=1.0.0"),
                "{open}"
            );
            assert!(open.ends_with("# EOF\n"), "{open}");
        });
        assert_eq!(counted(counts), [2, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_request_for_metrics_is_refused_and_counted() {
        let counts = with_pages(async |address| {
            let elsewhere = say(address, &GOOD.replace("/metrics", "/")).await;
            assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
            let posted = say(address, &GOOD.replace("GET", "POST")).await;
            assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
            for garbage in [
                "\u{1}\u{2}\r\n\r\n",
                "SSH-2.0-x\r\n\r\n",
                "GET /metrics\r\n\r\n",
            ] {
                let refused = say(address, garbage).await;
                assert!(
                    refused.starts_with("HTTP/1.1 400"),
                    "{garbage:?}: {refused}"
                );
            }
            let long = GOOD.replace("Host", &format!("X: {}\r\nHost", "x".repeat(20_000)));
            let refused = say(address, &long).await;
            assert!(
                refused.starts_with("HTTP/1.1 431") || refused.is_empty(),
                "{refused}"
            );
            let lines = GOOD
                .replace("Host", &"X: x\r\n".repeat(100))
                .replace(": x\r\n\r", "\r\n\r");
            let refused = say(address, &lines).await;
            assert!(refused.starts_with("HTTP/1.1 4"), "{refused}");
        });
        assert_eq!(counted(counts), [0, 2, 5, 0, 0]);
    }

    #[test]
    fn who_says_nothing_is_cut_off_after_a_while() {
        let counts = with_pages(async |address| {
            let mut silent = UnixStream::connect(address).await.unwrap();
            let mut slow = UnixStream::connect(address).await.unwrap();
            // A byte a second, until nobody hears it any more.
            let mut said = 0;
            for byte in GOOD.bytes() {
                if slow.write_all(&[byte]).await.is_err() {
                    break;
                }
                said += 1;
                sleep(Duration::from_secs(1)).await;
            }
            assert!((9..=11).contains(&said), "{said}");
            assert_eq!(hear(&mut silent).await, "");
        });
        assert_eq!(counted(counts), [0, 0, 0, 2, 0]);
    }

    #[test]
    fn beside_many_that_say_nothing_a_scraper_gets_in() {
        let counts = with_pages(async |address| {
            let mut silent = Vec::new();
            for _ in 0..2 * MAX_CONNECTIONS {
                silent.push(UnixStream::connect(address).await.unwrap());
            }
            let page = say(address, GOOD).await;
            assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        });
        let [served, _, _, _, cut_off] = counted(counts);
        assert_eq!(served, 1);
        assert_eq!(cut_off, MAX_CONNECTIONS as u64 + 1);
    }
}
