//! Metrics of a node for Prometheus: an HTTP page in its text format, version 0.0.4.
//!
//! Any program may connect. So a connection is for one request, has a thread of its own, and lasts
//! for some seconds at most. There are few connections, and threads, at a time. If more come, the
//! oldest connection is closed, and the newest is answered as soon as a thread has ended.

use quipu::Device;
use quipu_link::timer::deadline_after;
use quipu_node::LinkTotals;
use quipu_protocol::message::Status;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time that a client may take for the request and the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections at a time.
const MOST: usize = 16;

/// Bytes of a request, at most.
const REQUEST: usize = 8 << 10;

/// Answers `GET /metrics` at a listener on threads of its own, for as long as the process lives.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn serve(
    listener: TcpListener,
    status: impl Fn() -> Status + Send + Sync + 'static,
    links: impl Fn() -> LinkTotals + Send + Sync + 'static,
    devices: Vec<Device>,
) -> io::Result<()> {
    answer_all(listener, PATIENCE, move || {
        let mut text = page(&status(), &devices);
        link_metrics(&mut text, links());
        text
    })
}

fn answer_all(
    listener: TcpListener,
    patience: Duration,
    page: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<()> {
    let (open, page) = (Arc::new(Open::default()), Arc::new(page));
    let listen = move || {
        for (number, stream) in (0..).zip(listener.incoming()) {
            let Ok(stream) = stream else {
                // There are no more files, or the client has gone.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            if open.note(number, &stream).is_err() {
                continue;
            }
            let (own, page) = (Arc::clone(&open), Arc::clone(&page));
            let see_to = move || {
                // Also if the page panics.
                let _ended = Ended(&own, number);
                if let Err(error) = answer(stream, patience, &*page) {
                    tracing::debug!(%error, "metrics were not fetched");
                }
            };
            let thread = std::thread::Builder::new().name("quipu-scrape".to_owned());
            if thread.stack_size(1 << 18).spawn(see_to).is_err() {
                open.forget(number);
            }
        }
    };
    let thread = std::thread::Builder::new().name("quipu-metrics".to_owned());
    thread.spawn(listen).map(drop)
}

/// Connections that have a thread, oldest first.
#[derive(Default)]
struct Open {
    all: Mutex<VecDeque<(u64, TcpStream)>>,
    ended: Condvar,
}

impl Open {
    /// Takes one more. If there are too many, gives up the oldest, and waits until a thread has
    /// ended.
    fn note(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let kept = stream.try_clone()?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST
            && let Some((_, oldest)) = all.front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let are_many = |all: &mut VecDeque<_>| all.len() >= MOST;
        let waited = self.ended.wait_while(all, are_many);
        all = waited.unwrap_or_else(PoisonError::into_inner);
        all.push_back((number, kept));
        Ok(())
    }

    /// The thread of a connection ends.
    fn forget(&self, number: u64) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(other, _)| *other != number);
        self.ended.notify_one();
    }
}

/// The thread of this connection ends when this is dropped.
struct Ended<'a>(&'a Open, u64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

/// A connection that is over at a time, whatever the other side does.
struct Until {
    stream: TcpStream,
    end: Instant,
}

impl Until {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Until {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Until {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Answers one request, and closes.
fn answer(stream: TcpStream, patience: Duration, page: &dyn Fn() -> String) -> io::Result<()> {
    let end = deadline_after(patience);
    let mut until = Until { stream, end };
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST {
        match until.read(&mut piece)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            length => request.extend_from_slice(&piece[..length]),
        }
    }
    let (head, body) = respond(&request, page);
    until.write_all(head.as_bytes())?;
    until.write_all(body.as_bytes())?;
    until.stream.shutdown(Shutdown::Write)?;
    // Unread bytes would have the system throw away the answer.
    io::copy(&mut until.take(1 << 16), &mut io::sink()).map(drop)
}

/// The head and the body of the answer.
fn respond(request: &[u8], page: &dyn Fn() -> String) -> (String, String) {
    let line = request.split(|byte| *byte == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    let mut words = line.split(' ');
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let is_http = words
        .next()
        .is_some_and(|version| version.starts_with("HTTP/1."));
    let plain = "text/plain; charset=utf-8";
    let (status, kind, more, body) = match (method, target.split('?').next()) {
        _ if !is_http => (
            "400 Bad Request",
            plain,
            "",
            "it is no request of HTTP 1\n".to_owned(),
        ),
        ("GET" | "HEAD", Some("/metrics")) => (
            "200 OK",
            "text/plain; version=0.0.4; charset=utf-8",
            "",
            page(),
        ),
        (_, Some("/metrics")) => (
            "405 Method Not Allowed",
            plain,
            "Allow: GET, HEAD\r\n",
            "only GET is answered here\n".to_owned(),
        ),
        _ => ("404 Not Found", plain, "", "it is /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n",
        body.len()
    );
    let body = if method == "HEAD" {
        String::new()
    } else {
        body
    };
    (head, body)
}

/// A metric's name, type and description.
type Head = (&'static str, &'static str, &'static str);

fn page(status: &Status, devices: &[Device]) -> String {
    let mut text = String::new();
    let plain: [(Head, f64); 7] = [
        (
            (
                "uptime_seconds",
                "gauge",
                "Time since the node began to serve.",
            ),
            status.uptime_ms as f64 / 1000.0,
        ),
        (
            ("sessions", "gauge", "Clients' sessions."),
            status.sessions.into(),
        ),
        (
            ("session_bytes", "gauge", "Bytes of all sessions' buffers."),
            status.session_bytes as f64,
        ),
        (
            ("commands_in_flight", "gauge", "Commands that are not over."),
            status.commands_held as f64,
        ),
        (
            ("commands_total", "counter", "Commands that are over."),
            status.commands_over as f64,
        ),
        (
            (
                "bulk_bytes",
                "gauge",
                "Bytes sent in bulk to the sessions that there are, before they were compressed.",
            ),
            status.bulk_bytes as f64,
        ),
        (
            ("bulk_sent_bytes", "gauge", "What was sent for them."),
            status.bulk_sent as f64,
        ),
    ];
    for (head, value) in plain {
        metric(&mut text, head, [(String::new(), value)]);
    }
    let labels = |(number, device): (usize, &Device)| {
        format!(
            "{{device=\"{number}\",driver=\"{}\",kind=\"{}\",name=\"{}\"}}",
            escaped(device.driver_name()),
            escaped(&device.properties().kind.to_string()),
            escaped(device.name())
        )
    };
    metric(
        &mut text,
        ("device_memory_bytes", "gauge", "Memory of a device."),
        devices.iter().enumerate().map(|(number, device)| {
            let bytes = device.properties().global_memory as f64;
            (labels((number, device)), bytes)
        }),
    );
    metric(
        &mut text,
        (
            "device_free_memory_bytes",
            "gauge",
            "Free memory of a device, where its driver can tell.",
        ),
        devices.iter().enumerate().filter_map(|(number, device)| {
            let bytes = device.free_memory()? as f64;
            Some((labels((number, device)), bytes))
        }),
    );
    text
}

/// Links of all sessions: those with clients, and those with other nodes.
fn link_metrics(text: &mut String, LinkTotals { clients, nodes }: LinkTotals) {
    let with = [("clients", clients), ("nodes", nodes)];
    let states = with.iter().flat_map(|(with, sums)| {
        let states = [
            ("connected", sums.states.connected),
            ("awaited", sums.states.awaited),
            ("by_client", sums.states.by_client),
        ];
        states.into_iter().map(move |(state, links)| {
            let labels = format!("{{with=\"{with}\",state=\"{state}\"}}");
            (labels, links as f64)
        })
    });
    let head = (
        "links",
        "gauge",
        "Connections of sessions: there, awaited, or by way of the client instead.",
    );
    metric(text, head, states);
    let sums: [(Head, [u64; 2]); 3] = [
        (
            (
                "link_sent_bytes",
                "gauge",
                "Bytes that were sent over the links that there are.",
            ),
            [clients.sent, nodes.sent],
        ),
        (
            (
                "link_received_bytes",
                "gauge",
                "Bytes that have come over the links that there are.",
            ),
            [clients.received, nodes.received],
        ),
        (
            (
                "links_resumed",
                "gauge",
                "Connections that took the place of lost ones, of the links that there are.",
            ),
            [clients.resumed, nodes.resumed],
        ),
    ];
    for (head, sums) in sums {
        let values = with.iter().zip(sums);
        let values = values.map(|((with, _), sum)| (format!("{{with=\"{with}\"}}"), sum as f64));
        metric(text, head, values);
    }
}

fn metric(text: &mut String, head: Head, values: impl IntoIterator<Item = (String, f64)>) {
    let (name, kind, help) = head;
    let _ = writeln!(
        text,
        "# HELP quipu_node_{name} {help}\n# TYPE quipu_node_{name} {kind}"
    );
    for (labels, value) in values {
        let _ = writeln!(text, "quipu_node_{name}{labels} {value}");
    }
}

/// A label's value, as the format wants it.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_conformance::Watchdog;
    use quipu_node::{LinkStates, LinkSums};
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// So long that nothing ends by it.
    const LONG: Duration = Duration::from_secs(3600);

    fn watchdog() -> Watchdog {
        Watchdog::start(Duration::from_secs(600), "metrics".to_owned())
    }

    fn served(patience: Duration, bytes: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        answer_all(listener, patience, move || "x".repeat(bytes)).unwrap();
        address
    }

    fn ask(address: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn fetch(address: SocketAddr, request: &str) -> String {
        let mut answer = String::new();
        ask(address, request).read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn half_open_connections_by_the_thousand_keep_nobody_out() {
        let _watchdog = watchdog();
        let address = served(LONG, 100);
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut half = VecDeque::new();
        for number in 0..1000_usize {
            half.push_back(ask(address, &request[..number % request.len()]));
            // As many files as a process has.
            if half.len() > 200 {
                half.pop_front();
            }
        }
        assert!(fetch(address, request).ends_with(&"x".repeat(100)));
        // Of those that are left, the oldest were given up.
        for stream in half.iter_mut().take(200 - MOST) {
            let mut nothing = Vec::new();
            // However that shows.
            let _ = stream.read_to_end(&mut nothing);
            assert!(nothing.is_empty());
        }
    }

    #[test]
    fn however_many_ask_no_more_threads_make_the_page_than_may() {
        let _watchdog = watchdog();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        let (go, may) = std::sync::mpsc::channel::<()>();
        let (may, running) = (Mutex::new(may), AtomicUsize::new(0));
        let page = move || {
            begun.send(running.fetch_add(1, Ordering::SeqCst)).unwrap();
            may.lock().unwrap().recv().unwrap();
            running.fetch_sub(1, Ordering::SeqCst);
            String::new()
        };
        answer_all(listener, LONG, page).unwrap();
        for number in 0..2 * MOST {
            let asks = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
            if number >= MOST {
                go.send(()).unwrap();
            }
            assert!(begins.recv().unwrap() < MOST);
            // A thread that has answered ends once its client has closed.
            drop(asks);
        }
        (0..MOST).for_each(|_| go.send(()).unwrap());
    }

    #[test]
    fn who_never_reads_or_goes_on_is_given_up_and_holds_up_nobody() {
        let _watchdog = watchdog();
        // More than sockets hold.
        let large = 64 << 20;
        let address = served(Duration::from_secs(2), large);
        let mut never = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        let mut slow = ask(address, "GET /met");
        assert!(fetch(address, "GET / HTTP/1.1\r\n\r\n").contains(" 404 "));
        assert_eq!(slow.read_to_end(&mut Vec::new()).unwrap(), 0);
        // It has begun to answer this one before, and has given it up by now, or does so while it
        // is not read.
        let other = ask(address, "GET /met");
        (&other).read_to_end(&mut Vec::new()).unwrap();
        let mut read = Vec::new();
        let ended = never.read_to_end(&mut read);
        assert!(ended.is_err() || read.len() < large, "{} bytes", read.len());
    }

    #[test]
    fn what_is_no_request_is_told_so_and_what_is_too_long_is_not_read() {
        let _watchdog = watchdog();
        let address = served(LONG, 100);
        for (request, status) in [
            ("nonsense\r\n\r\n", "400"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", "200"),
            ("POST /metrics HTTP/1.1\r\n\r\nmore", "405"),
            ("\r\n\r\n", "400"),
        ] {
            let answer = fetch(address, request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
        let head = fetch(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(
            head.contains("\r\nContent-Length: 100\r\n") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(2 * REQUEST));
        assert!(fetch(address, &long).contains(" 400 "));
    }

    #[test]
    fn what_a_name_has_in_it_stays_in_the_label() {
        assert_eq!(escaped("a\"} 1\nb\\"), "a\\\"} 1\\nb\\\\");
    }

    #[test]
    fn links_are_told_by_what_they_are_with_and_how_they_are() {
        let mut text = String::new();
        let clients = LinkSums {
            states: LinkStates {
                connected: 4,
                awaited: 1,
                by_client: 0,
            },
            resumed: 2,
            sent: 1000,
            received: 2000,
        };
        let nodes = LinkSums {
            states: LinkStates {
                connected: 1,
                awaited: 0,
                by_client: 3,
            },
            ..LinkSums::default()
        };
        link_metrics(&mut text, LinkTotals { clients, nodes });
        for line in [
            "links{with=\"clients\",state=\"connected\"} 4",
            "links{with=\"clients\",state=\"awaited\"} 1",
            "links{with=\"nodes\",state=\"connected\"} 1",
            "links{with=\"nodes\",state=\"by_client\"} 3",
            "link_sent_bytes{with=\"clients\"} 1000",
            "link_received_bytes{with=\"clients\"} 2000",
            "link_received_bytes{with=\"nodes\"} 0",
            "links_resumed{with=\"clients\"} 2",
        ] {
            assert!(text.contains(&format!("\nquipu_node_{line}\n")), "{text}");
        }
        assert_eq!(text.matches("# TYPE").count(), 4);
    }

    #[test]
    fn a_metric_says_what_it_is_once() {
        let mut text = String::new();
        let values = [("{device=\"0\"}", 0.5), ("{device=\"1\"}", 8e9)];
        metric(
            &mut text,
            ("x_bytes", "gauge", "Bytes."),
            values.map(|(labels, value)| (labels.to_owned(), value)),
        );
        assert_eq!(
            text,
            "# HELP quipu_node_x_bytes Bytes.\n# TYPE quipu_node_x_bytes gauge\n\
             quipu_node_x_bytes{device=\"0\"} 0.5\nquipu_node_x_bytes{device=\"1\"} 8000000000\n"
        );
    }
}
