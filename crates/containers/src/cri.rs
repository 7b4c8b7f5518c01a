// SPDX-License-Identifier: GPL-2.0-only
//! Asks a runtime by Kubernetes' runtime interface (CRI): one call of gRPC, `ListContainers`.
//!
//! gRPC is a message of Protocol Buffers in a request of HTTP/2. `h2` speaks the latter. The usual
//! crates for the former are under the Apache License alone, which a GPL-2.0-only program cannot
//! take in; of the answer six fields count, which are read by `quick-protobuf`.

use crate::Error;
use crate::container::{Container, some};
use bytes::Bytes;
use quick_protobuf::BytesReader;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Where runtimes listen.
const SOCKETS: [&str; 5] = [
    "run/containerd/containerd.sock",
    "run/crio/crio.sock",
    "run/k3s/containerd/containerd.sock",
    "run/k0s/containerd.sock",
    "run/cri-dockerd.sock",
];
const CALL: &str = "/runtime.v1.RuntimeService/ListContainers";
/// A runtime that works answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// A node has some hundred containers, each of which takes a kilobyte.
const MAX: usize = 16 << 20;
/// gRPC's status for a call that the other side does not know.
const UNIMPLEMENTED: &str = "12";

/// The sockets that there are below `root`.
pub(crate) fn sockets(root: &Path) -> Vec<PathBuf> {
    let sockets = SOCKETS.iter().map(|socket| root.join(socket));
    sockets.filter(|socket| socket.exists()).collect()
}

/// The containers that the runtime behind a socket has. None, if it has no such interface: Docker's
/// containerd has it switched off.
pub(crate) fn containers(socket: &Path) -> Result<Vec<Container>, Error> {
    let failed = |why: String| Error::Socket {
        path: socket.to_owned(),
        why,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    let answer = runtime.block_on(async { timeout(PATIENCE, call(socket)).await });
    match answer {
        Ok(Ok(message)) => {
            let read = message.map(|message| list(&message)).transpose();
            let read = read.map_err(|error| failed(format!("its answer is damaged: {error}")))?;
            Ok(read.unwrap_or_default())
        }
        Ok(Err(why)) => Err(failed(why)),
        Err(_) => Err(failed(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// The answer's message; none, if the call is not known there.
async fn call(socket: &Path) -> Result<Option<Vec<u8>>, String> {
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
    let spoken = |error: h2::Error| format!("does not speak gRPC: {error}");
    let (client, connection) = h2::client::handshake(stream).await.map_err(spoken)?;
    tokio::spawn(connection);
    let mut client = client.ready().await.map_err(spoken)?;
    let request = http::Request::post(format!("http://localhost{CALL}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|error| error.to_string())?;
    let (response, mut body) = client.send_request(request, false).map_err(spoken)?;
    // Not compressed, no bytes: a request without a filter.
    let empty = Bytes::from_static(&[0; 5]);
    body.send_data(empty, true).map_err(spoken)?;
    let response = response.await.map_err(spoken)?;
    if response.status() != 200 {
        return Err(format!("does not speak gRPC: status {}", response.status()));
    }
    let early = status(response.headers());
    let mut body = response.into_body();
    let mut message = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(spoken)?;
        let _ = body.flow_control().release_capacity(chunk.len());
        message.extend_from_slice(&chunk);
        if message.len() > MAX {
            return Err(format!("its answer has more than {MAX} bytes"));
        }
    }
    let late = body.trailers().await.map_err(spoken)?;
    let late = late.as_ref().and_then(status);
    match early.or(late) {
        Some((code, _)) if code == "0" => {}
        Some((code, _)) if code == UNIMPLEMENTED => return Ok(None),
        Some((code, words)) => return Err(format!("refuses: status {code} {words}")),
        None => return Err("its answer has no status".to_owned()),
    }
    match message.get(..5) {
        Some([0, a, b, c, d]) => {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let whole = message.get(5..5 + length).map(<[u8]>::to_vec);
            whole
                .map(Some)
                .ok_or_else(|| "its answer is cut short".to_owned())
        }
        Some(_) => Err("its answer is compressed, which was not asked for".to_owned()),
        None => Err("its answer is cut short".to_owned()),
    }
}

/// gRPC's status and its words.
fn status(headers: &http::HeaderMap) -> Option<(String, String)> {
    let text = |name: &str| {
        let value = headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Some((
        text("grpc-status")?,
        text("grpc-message").unwrap_or_default(),
    ))
}

/// Calls `field` with the number of each field that has a length, and its bytes.
fn fields<'b>(
    bytes: &'b [u8],
    mut field: impl FnMut(u32, &'b [u8]) -> quick_protobuf::Result<()>,
) -> quick_protobuf::Result<()> {
    let mut reader = BytesReader::from_bytes(bytes);
    while !reader.is_eof() {
        let tag = reader.next_tag(bytes)?;
        match tag & 7 {
            2 => field(tag >> 3, reader.read_bytes(bytes)?)?,
            _ => reader.read_unknown(bytes, tag)?,
        }
    }
    Ok(())
}

/// `ListContainersResponse`: field 1, repeated, is a container.
fn list(bytes: &[u8]) -> quick_protobuf::Result<Vec<Container>> {
    let mut found = Vec::new();
    fields(bytes, |number, bytes| {
        if number == 1 {
            found.push(container(bytes)?);
        }
        Ok(())
    })?;
    Ok(found)
}

/// `Container`: 1 id, 3 metadata (1 name), 4 image (1 as the kubelet asked for it, 18 as the user did),
/// 8 labels.
fn container(bytes: &[u8]) -> quick_protobuf::Result<Container> {
    let mut found = Container::default();
    let (mut image, mut by_user) = (None, None);
    fields(bytes, |number, bytes| {
        match number {
            1 => found.id = text(bytes),
            3 => fields(bytes, |number, bytes| {
                if number == 1 {
                    found.name = some(&text(bytes));
                }
                Ok(())
            })?,
            4 => fields(bytes, |number, bytes| {
                match number {
                    1 => image = some(&text(bytes)),
                    18 => by_user = some(&text(bytes)),
                    _ => {}
                }
                Ok(())
            })?,
            8 => {
                let (key, value) = pair(bytes)?;
                match &key[..] {
                    "io.kubernetes.pod.name" => found.pod = some(&value),
                    "io.kubernetes.pod.namespace" => found.namespace = some(&value),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    found.image = by_user.or(image);
    Ok(found)
}

/// An entry of a map.
fn pair(bytes: &[u8]) -> quick_protobuf::Result<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    fields(bytes, |number, bytes| {
        match number {
            1 => key = text(bytes),
            2 => value = text(bytes),
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::UnixListener;
    use std::thread::{JoinHandle, spawn};

    /// A field with a length.
    fn put(number: u8, bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 128 * 128);
        let mut out = vec![number << 3 | 2];
        if bytes.len() >= 128 {
            out.push((bytes.len() % 128) as u8 | 128);
            out.push((bytes.len() / 128) as u8);
        } else {
            out.push(bytes.len() as u8);
        }
        out.extend(bytes);
        out
    }

    /// An answer with one container.
    pub(crate) fn answer(id: &str) -> Vec<u8> {
        let label = |key: &str, value: &str| {
            put(
                8,
                &[put(1, key.as_bytes()), put(2, value.as_bytes())].concat(),
            )
        };
        let container = [
            put(1, id.as_bytes()),
            put(2, b"a sandbox"),
            put(3, &[put(1, b"app"), vec![2 << 3, 7]].concat()),
            put(4, &put(1, b"docker.io/shop:2")),
            // A state and a time: numbers.
            vec![6 << 3, 1, 7 << 3, 0xff, 0x01],
            label("io.kubernetes.pod.name", "web-0"),
            label("io.kubernetes.pod.namespace", "shop"),
            label("other", "x"),
        ];
        put(1, &container.concat())
    }

    /// A runtime that answers once, with a message and a status.
    pub(crate) fn serve(path: &Path, message: Vec<u8>, status: &'static str) -> JoinHandle<()> {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::UnixListener::from_std(listener).unwrap();
                let (stream, _) = listener.accept().await.unwrap();
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(request) = connection.accept().await {
                    let Ok((request, mut respond)) = request else {
                        return;
                    };
                    assert_eq!(request.uri().path(), CALL);
                    let response =
                        http::Response::builder().header("content-type", "application/grpc");
                    let response = response.body(()).unwrap();
                    let mut body = respond.send_response(response, false).unwrap();
                    let mut framed = vec![0];
                    framed.extend((message.len() as u32).to_be_bytes());
                    framed.extend(&message);
                    body.send_data(framed.into(), false).unwrap();
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("grpc-status", http::HeaderValue::from_static(status));
                    body.send_trailers(trailers).unwrap();
                }
            });
        })
    }

    #[test]
    fn a_runtime_is_asked_for_names_images_and_pods() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cri.sock");
        let server = serve(&path, answer("aa"), "0");
        let found = containers(&path).unwrap();
        let expected = Container {
            id: "aa".into(),
            name: Some("app".into()),
            image: Some("docker.io/shop:2".into()),
            pod: Some("web-0".into()),
            namespace: Some("shop".into()),
            runtime: None,
        };
        assert_eq!(found, [expected]);
        server.join().unwrap();
    }

    #[test]
    fn one_without_the_interface_has_none_and_all_else_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cri.sock");
        let ask = |message: Vec<u8>, status| {
            let _ = std::fs::remove_file(&path);
            let server = serve(&path, message, status);
            let found = containers(&path);
            server.join().unwrap();
            found
        };
        assert!(ask(Vec::new(), "12").unwrap().is_empty());
        let said =
            |error: Result<_, Error>| error.map(|_: Vec<Container>| ()).unwrap_err().to_string();
        let refused = said(ask(Vec::new(), "7"));
        assert!(refused.contains("cri.sock: refuses: status 7"), "{refused}");
        let damaged = said(ask(vec![0x0a, 0x7f, 1], "0"));
        assert!(damaged.contains("its answer is damaged"), "{damaged}");
        std::fs::remove_file(&path).unwrap();
        let gone = said(containers(&path));
        assert!(gone.contains("cannot connect"), "{gone}");
        // Something else listens there.
        let listener = UnixListener::bind(&path).unwrap();
        let other = spawn(move || {
            use std::io::Write;
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        });
        let other_said = said(containers(&path));
        assert!(other_said.contains("does not speak gRPC"), "{other_said}");
        other.join().unwrap();
    }

    proptest! {
        #[test]
        fn any_answer_is_containers_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = list(&bytes);
            let _ = list(&put(1, &bytes));
        }
    }
}
