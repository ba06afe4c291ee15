//! What a node does, for Prometheus: an HTTP page in its text format, version 0.0.4.

use quipu::Device;
use quipu_wire::message::Status;
use std::fmt::Write as _;
use std::io;
use std::net::TcpListener;
use tiny_http::{Header, Method, Request, Response, Server};

/// Answers `GET /metrics` at a listener on a thread of its own, for as long as the process lives.
///
/// # Errors
/// If the system gives no thread, or the listener is none.
pub(crate) fn serve(
    listener: TcpListener,
    status: impl Fn() -> Status + Send + 'static,
    devices: Vec<Device>,
) -> io::Result<()> {
    let server = Server::from_listener(listener, None).map_err(io::Error::other)?;
    let answer = move || {
        for request in server.incoming_requests() {
            let page = page(&status(), &devices);
            if let Err(error) = respond(request, page) {
                // Whoever asked has gone.
                tracing::debug!(%error, "metrics were not fetched");
            }
        }
    };
    let thread = std::thread::Builder::new().name("quipu-metrics".to_owned());
    thread.spawn(answer).map(drop)
}

fn respond(request: Request, page: String) -> io::Result<()> {
    let header = |name: &str, value: &str| Header::from_bytes(name, value).into_iter();
    match (request.method(), request.url()) {
        (Method::Get | Method::Head, "/metrics") => {
            let mut response = Response::from_string(page);
            header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                .for_each(|header| response.add_header(header));
            request.respond(response)
        }
        (_, "/metrics") => {
            let mut response = Response::from_string("only GET is answered here\n");
            header("Allow", "GET, HEAD").for_each(|header| response.add_header(header));
            request.respond(response.with_status_code(405))
        }
        _ => request.respond(Response::from_string("it is /metrics\n").with_status_code(404)),
    }
}

/// A metric's name, type and what it is.
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

    #[test]
    fn what_a_name_has_in_it_stays_in_the_label() {
        assert_eq!(escaped("a\"} 1\nb\\"), "a\\\"} 1\\nb\\\\");
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
