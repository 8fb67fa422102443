//! Tests of the service through its socket: malformed, huge, slow, cancelled and too many requests, batches, shutdown.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use service::{Answer, App, Config, Digits, Engine, Image, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tvm::runtime::vm::CancelToken;

/// Answers with the first pixel, as soon as `open` is set or the call is cancelled.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
    entered: AtomicUsize,
    cancelled: AtomicUsize,
    sizes: Mutex<Vec<usize>>,
}

#[derive(Clone, Default)]
struct Gated(Arc<Gate>);

impl Gated {
    fn open() -> Gated {
        let gated = Gated::default();
        gated.0.open.store(true, Ordering::Release);
        gated
    }
}

impl Engine for Gated {
    fn run(&self, images: &[Image], cancel: &CancelToken) -> Result<Vec<Answer>, String> {
        self.0.entered.fetch_add(1, Ordering::AcqRel);
        self.0.sizes.lock().unwrap().push(images.len());
        while !self.0.open.load(Ordering::Acquire) {
            if cancel.is_cancelled() {
                self.0.cancelled.fetch_add(1, Ordering::AcqRel);
                return Err("cancelled".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // A pixel of 15 makes the model fail.
        let answer = |image: &Image| (image[0] < 15.0 / 16.0).then(|| (image[0] * 16.0).round() as u8);
        let digits: Option<Vec<u8>> = images.iter().map(answer).collect();
        let digits = digits.ok_or("no such digit")?;
        Ok(digits.into_iter().map(|digit| Answer { digit, score: 0.5 }).collect())
    }
}

struct Running {
    address: SocketAddr,
    app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<std::io::Result<()>>,
}

async fn start(engine: impl Engine, config: Config) -> Running {
    let app = App::new(engine, config).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(serve(listener, app.clone(), async { drop(stopped.await) }));
    Running { address, app, stop: Some(stop), served }
}

impl Running {
    async fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// Status and body of the response to `bytes`.
    async fn exchange(&self, bytes: &[u8]) -> (u16, String) {
        receive(self.send(bytes).await).await
    }

    fn metric(&self, line: &str) -> bool {
        self.app.metrics().text().lines().any(|it| it == line)
    }
}

async fn receive(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut text)).await.unwrap().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    (status, body.to_string())
}

fn post(body: &str) -> Vec<u8> {
    let head =
        format!("POST /classify HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}", body.len());
    format!("{head}\r\n\r\n{body}").into_bytes()
}

fn pixels(first: u8) -> String {
    let mut pixels = vec![0; 64];
    pixels[0] = first;
    format!("{{\"pixels\": {pixels:?}}}")
}

/// Waits until `done`.
async fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < end, "{what} does not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn kind(body: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert!(body["error"]["message"].is_string(), "{body}");
    body["error"]["kind"].as_str().unwrap().to_string()
}

#[tokio::test]
async fn malformed_requests_are_refused_with_a_kind() {
    let running = start(Gated::open(), Config::default()).await;
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").into_bytes();
    let mut short = "{\"pixels\": [".to_string();
    short.push_str(&["1"; 63].join(","));
    short.push_str("]}");
    let cases: [(Vec<u8>, u16, &str); 12] = [
        (post(""), 400, "malformed"),
        (post("{"), 400, "malformed"),
        (post("pixels"), 400, "malformed"),
        (post("\u{fffd}"), 400, "malformed"),
        (post("[]"), 422, "invalid"),
        (post("{\"pixels\": \"x\"}"), 422, "invalid"),
        (post("{\"pixels\": [], \"more\": 1}"), 422, "invalid"),
        (post(&short), 422, "invalid"),
        (post(&pixels(17)), 422, "invalid"),
        (post(&pixels(1).replace('1', "1e39")), 422, "invalid"),
        (get("/classify"), 405, "method"),
        (get("/other"), 404, "not_found"),
    ];
    for (bytes, status, expected) in cases {
        let request = String::from_utf8_lossy(&bytes).into_owned();
        let (got, body) = running.exchange(&bytes).await;
        assert_eq!(got, status, "{request}\n{body}");
        assert_eq!(kind(&body), expected, "{request}\n{body}");
    }
    // What is no HTTP is refused by the server, and harms nobody else.
    assert_eq!(running.exchange(b"\x16\x03\x01 nonsense\r\n\r\n").await.0, 400);
    assert_eq!(running.exchange(&post(&pixels(3))).await, (200, "{\"digit\":3,\"score\":0.5}".into()));
    let (status, body) = running.exchange(&post(&pixels(15))).await;
    assert_eq!((status, kind(&body).as_str()), (500, "model"));
}

#[tokio::test]
async fn huge_bodies_are_refused_before_they_are_read() {
    let running = start(Gated::open(), Config { body: 1000, ..Config::default() }).await;
    let head = "POST /classify HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    // The body is announced and never sent.
    let announced = format!("{head}content-length: 1000000000000\r\n\r\n");
    let (status, body) = running.exchange(announced.as_bytes()).await;
    assert_eq!((status, kind(&body).as_str()), (413, "too_large"));
    // The length is not announced.
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    (0..20).for_each(|_| chunked.push_str(&format!("64\r\n{}\r\n", " ".repeat(100))));
    let (status, body) = running.exchange(chunked.as_bytes()).await;
    assert_eq!((status, kind(&body).as_str()), (413, "too_large"));
    let heads = format!("{head}x: {}\r\n\r\n", "x".repeat(1 << 20));
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    // The server may close the connection while the head is sent.
    let _ = stream.write_all(heads.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(running.exchange(&post(&pixels(3))).await.0, 200);
}

#[tokio::test]
async fn slow_clients_are_cut_off() {
    let config = Config { read: Duration::from_millis(200), ..Config::default() };
    let running = start(Gated::open(), config).await;
    let start = Instant::now();
    let (status, body) =
        running.exchange(b"POST /classify HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{").await;
    assert_eq!((status, kind(&body).as_str()), (408, "slow_body"));
    // A head that does not end has no answer, or one with 408.
    let (status, _) = running.exchange(b"POST /classify HTTP/1.1\r\nhost:").await;
    assert!([0, 408].contains(&status), "{status}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(running.metric("classify_requests_total{status=\"408\"} 1"));
}

#[tokio::test]
async fn a_batch_is_cancelled_when_nobody_waits() {
    let gate = Gated::default();
    let config = Config { answer: Duration::from_millis(300), ..Config::default() };
    let running = start(gate.clone(), config).await;

    // A client that goes away.
    let stream = running.send(&post(&pixels(1))).await;
    until("the call", || gate.0.entered.load(Ordering::Acquire) == 1).await;
    drop(stream);
    until("the cancellation", || gate.0.cancelled.load(Ordering::Acquire) == 1).await;
    until("the count", || running.metric("classify_requests_total{status=\"499\"} 1")).await;

    // An answer that takes too long.
    let (status, body) = running.exchange(&post(&pixels(2))).await;
    assert_eq!((status, kind(&body).as_str()), (504, "slow_answer"));
    until("the cancellation", || gate.0.cancelled.load(Ordering::Acquire) == 2).await;
    until("the count", || running.app.metrics().cancelled_batches() == 2).await;

    // The service goes on.
    gate.0.open.store(true, Ordering::Release);
    assert_eq!(running.exchange(&post(&pixels(3))).await.0, 200);
    assert!(running.metric("classify_in_flight 0"));
}

#[tokio::test]
async fn a_batch_goes_on_while_somebody_waits() {
    let gate = Gated::default();
    let running = start(gate.clone(), Config::default()).await;
    let first = running.send(&post(&pixels(1))).await;
    until("the call", || gate.0.entered.load(Ordering::Acquire) == 1).await;
    // These two form the second batch.
    let patient = running.send(&post(&pixels(2))).await;
    let gone = running.send(&post(&pixels(3))).await;
    until("three requests", || running.metric("classify_in_flight 3")).await;
    drop(gone);
    until("the count", || running.metric("classify_requests_total{status=\"499\"} 1")).await;
    gate.0.open.store(true, Ordering::Release);
    assert_eq!(receive(first).await, (200, "{\"digit\":1,\"score\":0.5}".into()));
    assert_eq!(receive(patient).await, (200, "{\"digit\":2,\"score\":0.5}".into()));
    assert_eq!(gate.0.cancelled.load(Ordering::Acquire), 0);
    // Who went away before the batch began is not computed.
    assert_eq!(*gate.0.sizes.lock().unwrap(), [1, 1]);
}

#[tokio::test]
async fn waiting_requests_share_a_call_and_get_their_own_answers() {
    let gate = Gated::default();
    let running = start(gate.clone(), Config { batch: 8, ..Config::default() }).await;
    let mut streams = vec![running.send(&post(&pixels(0))).await];
    until("the call", || gate.0.entered.load(Ordering::Acquire) == 1).await;
    for i in 1..21 {
        streams.push(running.send(&post(&pixels(i % 10))).await);
    }
    until("all requests", || running.metric("classify_in_flight 21")).await;
    gate.0.open.store(true, Ordering::Release);
    for (i, stream) in streams.into_iter().enumerate() {
        assert_eq!(receive(stream).await, (200, format!("{{\"digit\":{},\"score\":0.5}}", i % 10)));
    }
    assert_eq!(*gate.0.sizes.lock().unwrap(), [1, 8, 8, 4]);
}

#[tokio::test]
async fn too_many_requests_are_refused() {
    let gate = Gated::default();
    let running = start(gate.clone(), Config { batch: 1, queue: 2, ..Config::default() }).await;
    let first = running.send(&post(&pixels(1))).await;
    until("the call", || gate.0.entered.load(Ordering::Acquire) == 1).await;
    let waiting = [running.send(&post(&pixels(2))).await, running.send(&post(&pixels(3))).await];
    until("three requests", || running.metric("classify_in_flight 3")).await;
    let (status, body) = running.exchange(&post(&pixels(4))).await;
    assert_eq!((status, kind(&body).as_str()), (503, "overloaded"));
    gate.0.open.store(true, Ordering::Release);
    assert_eq!(receive(first).await.0, 200);
    for stream in waiting {
        assert_eq!(receive(stream).await.0, 200);
    }
}

#[tokio::test]
async fn a_stop_lets_requests_end() {
    let gate = Gated::default();
    let mut running = start(gate.clone(), Config::default()).await;
    let stream = running.send(&post(&pixels(1))).await;
    let idle = running.send(b"").await;
    until("the call", || gate.0.entered.load(Ordering::Acquire) == 1).await;
    running.stop.take().unwrap().send(()).unwrap();
    let address = running.address;
    let end = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).await.is_ok() {
        assert!(Instant::now() < end, "connections are still accepted");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    gate.0.open.store(true, Ordering::Release);
    assert_eq!(receive(stream).await, (200, "{\"digit\":1,\"score\":0.5}".into()));
    running.served.await.unwrap().unwrap();
    assert_eq!(receive(idle).await.0, 0);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let gate = Gated::default();
    let config = Config { stop: Duration::from_millis(100), ..Config::default() };
    let mut running = start(gate.clone(), config).await;
    let _stream = running.send(&post(&pixels(1))).await;
    until("the call", || gate.0.entered.load(Ordering::Acquire) == 1).await;
    let start = Instant::now();
    running.stop.take().unwrap().send(()).unwrap();
    running.served.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    gate.0.open.store(true, Ordering::Release);
}

#[tokio::test]
async fn the_digits_model_answers() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    let digits = Digits::new(&data.join("digits_cnn/model.onnx"), 64).unwrap();
    let running = start(digits, Config::default()).await;
    let bytes = std::fs::read(data.join("digits.bin")).unwrap();
    let count = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    let (images, labels) = bytes[16..].split_at(count * 64);
    let held_out = count - 50;
    let mut right = 0;
    for (image, label) in images.chunks(64).zip(labels).skip(held_out) {
        let (status, body) = running.exchange(&post(&format!("{{\"pixels\":{image:?}}}"))).await;
        assert_eq!(status, 200, "{body}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert!((0.0..=1.0).contains(&body["score"].as_f64().unwrap()), "{body}");
        right += usize::from(body["digit"] == *label);
    }
    assert!(right >= 45, "{right} of 50");
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").into_bytes();
    assert_eq!(running.exchange(&get("/healthz")).await, (200, "ok\n".into()));
    let (status, text) = running.exchange(&get("/metrics")).await;
    assert_eq!(status, 200);
    assert!(text.contains("classify_requests_total{status=\"200\"} 50\n"), "{text}");
}

#[test]
fn a_cancelled_call_of_the_model_ends_with_an_error() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/digits_cnn/model.onnx");
    let digits = Digits::new(&path, 4).unwrap();
    let token = CancelToken::new();
    let images = [[0.5; 64]; 4];
    assert_eq!(digits.run(&images, &token).unwrap().len(), 4);
    token.cancel();
    let err = digits.run(&images, &token).unwrap_err();
    assert!(err.contains("cancel"), "{err}");
}
