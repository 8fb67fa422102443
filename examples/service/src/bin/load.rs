//! A load test: keeps a number of connections busy with `/empty` and `/classify` in turns, and reports rates, times, errors and
//! the memory of the service.
//!
//! `cargo run --release -p service --bin load -- 127.0.0.1:8080 [CONNECTIONS [SECONDS [ROUNDS]]]`; the service needs `--benchmark`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is an application")]

use std::error::Error;
use std::fmt::Write;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Responses with status 200, other ones, and the time of each in microseconds.
#[derive(Default)]
struct Counts {
    good: u64,
    bad: u64,
    times: Vec<u32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let address = args.first().map_or("127.0.0.1:8080", String::as_str);
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |it| it.parse::<u64>());
    let (connections, seconds, rounds) = (number(1, 64)?, number(2, 5)?, number(3, 3)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for round in 0..rounds {
            let mut rates = Vec::new();
            for path in ["/empty", "/classify"] {
                let limit = Duration::from_secs(seconds);
                let counts = load(address, path, connections, limit).await?;
                let rate = counts.good as f64 / seconds as f64;
                println!(
                    "{round} {path:<10} {rate:8.0} requests/s, median {:.2} ms, 99 % {:.2} ms, {} errors",
                    percentile(&counts.times, 0.5),
                    percentile(&counts.times, 0.99),
                    counts.bad,
                );
                rates.push(rate);
            }
            let metrics = get(address, "/metrics").await?;
            let memory = metrics.lines().find_map(|it| it.strip_prefix("process_resident_memory_bytes "));
            let memory = memory.and_then(|it| it.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1048576.0;
            println!("{round} {:.0} % of an empty handler, {memory:.1} MiB", 100.0 * rates[1] / rates[0]);
        }
        Ok(())
    })
}

fn percentile(sorted: &[u32], part: f64) -> f64 {
    sorted.get((sorted.len() as f64 * part) as usize).map_or(f64::NAN, |it| f64::from(*it) / 1e3)
}

async fn load(
    address: &str,
    path: &str,
    connections: u64,
    limit: Duration,
) -> Result<Counts, Box<dyn Error>> {
    let end = Instant::now() + limit;
    let mut tasks = JoinSet::new();
    for i in 0..connections {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        tasks.spawn(client(stream, request(path, i), end));
    }
    let mut all = Counts::default();
    while let Some(counts) = tasks.join_next().await {
        let counts = counts?;
        all.good += counts.good;
        all.bad += counts.bad;
        all.times.extend(counts.times);
    }
    all.times.sort_unstable();
    Ok(all)
}

/// A request with an image, which differs for each connection.
fn request(path: &str, seed: u64) -> Vec<u8> {
    let mut body = "{\"pixels\":[".to_string();
    for i in 0..64 {
        let _ = write!(body, "{}{}", if i == 0 { "" } else { "," }, (i * 7 + seed * 13) % 17);
    }
    body.push_str("]}");
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json");
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Sends one request after the other until the time is over.
async fn client(mut stream: TcpStream, request: Vec<u8>, end: Instant) -> Counts {
    let (mut counts, mut buffer) = (Counts::default(), Vec::with_capacity(4096));
    while Instant::now() < end {
        let start = Instant::now();
        let sent = stream.write_all(&request).await.is_ok();
        match if sent { response(&mut stream, &mut buffer).await } else { None } {
            Some(200) => counts.good += 1,
            Some(_) => counts.bad += 1,
            None => {
                counts.bad += 1;
                return counts;
            }
        }
        counts.times.push(start.elapsed().as_micros() as u32);
    }
    counts
}

/// Reads one response; gives its status. `None` if the connection ended.
async fn response(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<u16> {
    buffer.clear();
    loop {
        if let Some(head) = buffer.windows(4).position(|it| it == b"\r\n\r\n") {
            let text = std::str::from_utf8(&buffer[..head]).ok()?;
            let length = text.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            })?;
            if buffer.len() >= head + 4 + length {
                return text.split(' ').nth(1)?.parse().ok();
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

async fn get(address: &str, path: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
