//! A model behind HTTP: requests that wait at the same time share a call of the model.
//!
//! `POST /classify` takes `{"pixels": [64 numbers from 0 to 16]}`, an image of 8 by 8, and gives `{"digit": 7, "score": 0.98}`.
//! `GET /healthz` says whether requests are taken, `GET /metrics` is text for Prometheus. Errors are JSON:
//! `{"error": {"kind": "too_large", "message": "…"}}`.
#![forbid(unsafe_code)]

mod api;
mod batcher;
mod engine;
mod error;
mod metrics;
mod server;

pub use api::{App, router};
pub use batcher::Failure;
pub use engine::{Answer, CLASSES, Digits, Engine, Image, PIXELS};
pub use error::ApiError;
pub use metrics::Metrics;
pub use server::serve;

use std::time::Duration;

/// Limits of the service.
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest number of images in a call of the model.
    pub batch: usize,
    /// Largest number of images that wait; more are refused with 503.
    pub queue: usize,
    /// Largest body in bytes.
    pub body: usize,
    /// Largest number of connections; more wait to be accepted.
    pub connections: usize,
    /// How long a client may take to send the head of a request, and then its body.
    pub read: Duration,
    /// How long an answer may take; then the call of the model is cancelled, unless others wait for it.
    pub answer: Duration,
    /// How long requests may take to end after the signal to stop.
    pub stop: Duration,
    /// Adds `POST /empty`, which does nothing, for comparison.
    pub benchmark: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            batch: 64,
            queue: 1024,
            body: 16 << 10,
            connections: 1024,
            read: Duration::from_secs(5),
            answer: Duration::from_secs(2),
            stop: Duration::from_secs(10),
            benchmark: false,
        }
    }
}
