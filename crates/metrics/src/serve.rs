// SPDX-License-Identifier: GPL-2.0-only
//! A small HTTP/1.1 endpoint for one reader at a time.
//!
//! Bounded by construction: connections are served one after the other, each
//! for at most [`PATIENCE`], its request is at most [`REQUEST`] bytes, and the
//! answer is made anew at most once a second. What a scraper needs and no more;
//! keep-alive is not offered.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A connection is dropped after this time, whatever it does.
const PATIENCE: Duration = Duration::from_secs(2);
/// A longer request is refused.
const REQUEST: usize = 8 << 10;
/// A younger answer is given again.
const FRESH: Duration = Duration::from_secs(1);

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Makes the text that is served, or says why it cannot.
pub type Content<'a> = dyn FnMut() -> Result<String, Failure> + 'a;

/// Why there is no text.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The endpoint.
pub struct Server {
    listener: TcpListener,
    last: Option<(Instant, String)>,
}

impl Server {
    /// Listens. Fails if the address is in use or not this machine's.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address)?,
            last: None,
        })
    }

    /// Where it listens; tells the port if 0 was asked for.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends. A connection that fails concerns only
    /// who made it.
    pub fn run(&mut self, content: &mut Content) -> io::Error {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => drop(self.answer(stream, content)),
                // Out of descriptors: waiting is better than spinning.
                Err(e) if matches!(e.raw_os_error(), Some(23 | 24)) => std::thread::sleep(FRESH),
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                    ) => {}
                Err(e) => return e,
            }
        }
    }

    /// Serves one connection.
    fn answer(&mut self, mut stream: TcpStream, content: &mut Content) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut request = Vec::new();
        let asked = receive(&mut stream, &mut request, end)?;
        let headers_only = matches!(asked, Request::Get { head: true, .. });
        let (status, kind, body) = match asked {
            Request::Get {
                path, openmetrics, ..
            } if path == "/metrics" => match self.text(content) {
                Ok(text) => (
                    "200 OK",
                    if openmetrics { OPENMETRICS } else { PLAIN },
                    text.to_owned(),
                ),
                Err(why) => (
                    "500 Internal Server Error",
                    "text/plain; charset=utf-8",
                    format!("{why}\n"),
                ),
            },
            Request::Get { path, .. } if path == "/" => (
                "200 OK",
                "text/plain; charset=utf-8",
                "wideleaf: see /metrics\n".to_owned(),
            ),
            Request::Get { .. } => (
                "404 Not Found",
                "text/plain; charset=utf-8",
                "see /metrics\n".to_owned(),
            ),
            Request::Other => (
                "405 Method Not Allowed",
                "text/plain; charset=utf-8",
                "only GET and HEAD\n".to_owned(),
            ),
            Request::Bad => (
                "400 Bad Request",
                "text/plain; charset=utf-8",
                "not a request\n".to_owned(),
            ),
            Request::TooLong => (
                "431 Request Header Fields Too Large",
                "text/plain; charset=utf-8",
                "too long\n".to_owned(),
            ),
        };
        // A method that is not allowed comes with those that are (RFC 9110, 15.5.6).
        let allow = match status {
            "405 Method Not Allowed" => "Allow: GET, HEAD\r\n",
            _ => "",
        };
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{allow}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        // HEAD: all that GET would say about the body, without it.
        if !headers_only {
            answer += &body;
        }
        send(&mut stream, answer.as_bytes())
    }

    fn text(&mut self, content: &mut Content) -> Result<&str, Failure> {
        let stale = self
            .last
            .as_ref()
            .is_none_or(|(made, _)| made.elapsed() >= FRESH);
        if stale {
            self.last = Some((Instant::now(), content()?));
        }
        Ok(self.last.as_ref().map_or("", |(_, text)| text))
    }
}

/// Writes all of it within [`PATIENCE`], however slowly it is read.
fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Request {
    /// GET, or HEAD.
    Get {
        path: String,
        openmetrics: bool,
        head: bool,
    },
    Other,
    Bad,
    TooLong,
}

/// Reads up to the end of the header lines.
fn receive(stream: &mut TcpStream, bytes: &mut Vec<u8>, end: Instant) -> io::Result<Request> {
    let mut part = [0; 1024];
    loop {
        if let Some(request) = parse(bytes) {
            return Ok(request);
        }
        if bytes.len() > REQUEST {
            return Ok(Request::TooLong);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&part[..n]),
        }
    }
}

/// The request in `bytes`, `None` if more has to come.
fn parse(bytes: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Request::Bad),
    }
    let head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Some(Request::Other),
    };
    let path = request
        .path
        .unwrap_or_default()
        .split('?')
        .next()
        .unwrap_or_default()
        .to_owned();
    let openmetrics = request.headers.iter().any(|h| {
        h.name.eq_ignore_ascii_case("accept")
            && String::from_utf8_lossy(h.value).contains("application/openmetrics-text")
    });
    Some(Request::Get {
        path,
        openmetrics,
        head,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `request` to a server that runs for it, returns its answer.
    fn exchange(request: &[u8], content: &mut Content) -> String {
        let mut server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut client = TcpStream::connect(server.address().unwrap()).unwrap();
        client.write_all(request).unwrap();
        let (stream, _) = server.listener.accept().unwrap();
        let _ = server.answer(stream, content);
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn prometheus_gets_openmetrics_and_others_plain_text() {
        let accept = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n";
        let answer = exchange(accept, &mut || Ok("# EOF\n".to_owned()));
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text;"),
            "{answer}"
        );
        assert!(answer.ends_with("\r\n\r\n# EOF\n"));
        let answer = exchange(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", &mut || {
            Ok(String::new())
        });
        assert!(
            answer.contains("Content-Type: text/plain; version=0.0.4"),
            "{answer}"
        );
    }

    #[test]
    fn errors_are_answers() {
        let mut never = || -> Result<String, Failure> { panic!("must not be asked") };
        assert!(exchange(b"GET /x HTTP/1.1\r\n\r\n", &mut never).starts_with("HTTP/1.1 404"));
        assert!(
            exchange(b"POST /metrics HTTP/1.1\r\n\r\n", &mut never).starts_with("HTTP/1.1 405")
        );
        assert!(exchange(b"\x16\x03\x01 tls?\r\n\r\n", &mut never).starts_with("HTTP/1.1 400"));
        let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'a'; REQUEST + 2000]].concat();
        assert!(parse(&long).is_none());
        assert!(
            exchange(b"GET /metrics HTTP/1.1\r\n\r\n", &mut || Err(
                "/proc is gone".into()
            ))
            .contains("500")
        );
    }

    #[test]
    fn head_says_what_get_would_without_the_body() {
        let text = "wideleaf_x 1\n# EOF\n";
        let ask = |method: &str| {
            let request = format!("{method} /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            exchange(request.as_bytes(), &mut || Ok(text.to_owned()))
        };
        let (get, head) = (ask("GET"), ask("HEAD"));
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        assert_eq!(format!("{head}{text}"), get);
        assert!(ask("DELETE").contains("\r\nAllow: GET, HEAD\r\n"));
    }

    #[test]
    fn a_silent_client_is_dropped() {
        // It comes back: how soon is the machine's business.
        assert_eq!(exchange(b"GET /metrics HT", &mut || Ok(String::new())), "");
    }

    #[test]
    fn an_answer_is_made_at_most_once_a_second() {
        let mut server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut made = 0;
        let started = Instant::now();
        for _ in 0..5 {
            server
                .text(&mut || {
                    made += 1;
                    Ok(String::new())
                })
                .unwrap();
        }
        // A busy machine may take more than a second for all of it.
        let seconds = started.elapsed().as_secs();
        assert!((1..=1 + seconds).contains(&made), "{made} in {seconds} s");
    }
}
