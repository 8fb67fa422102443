//! The paths of the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::error::Category;
use tokio::time::timeout;

use crate::batcher::Batcher;
use crate::{Answer, ApiError, Config, Engine, Image, Metrics, PIXELS};

/// What all requests share.
pub struct App {
    batcher: Batcher,
    metrics: Arc<Metrics>,
    config: Config,
    stopping: AtomicBool,
}

impl App {
    /// Starts the thread that calls `engine`.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn new(engine: impl Engine, config: Config) -> std::io::Result<Arc<App>> {
        let metrics = Arc::new(Metrics::default());
        let batcher = Batcher::start(Arc::new(engine), metrics.clone(), &config)?;
        Ok(Arc::new(App { batcher, metrics, config, stopping: AtomicBool::new(false) }))
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// From now on, `/healthz` says that no more requests should be sent.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }
}

/// The paths.
pub fn router(app: Arc<App>) -> Router {
    let mut router = Router::new().route("/classify", post(classify));
    if app.config.benchmark {
        router = router.route("/empty", post(async || "{}"));
    }
    router
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .fallback(async || ApiError::NotFound)
        .method_not_allowed_fallback(async || ApiError::Method)
        .with_state(app)
}

async fn health(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    if app.stopping.load(Ordering::Acquire) {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.text())
}

async fn classify(State(app): State<Arc<App>>, request: Request) -> Response {
    let count = app.metrics.begin();
    let response = match answer(&app, request).await {
        Ok(answer) => {
            let body = format!("{{\"digit\":{},\"score\":{}}}", answer.digit, answer.score);
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(err) => err.into_response(),
    };
    count.end(response.status().as_u16());
    response
}

async fn answer(app: &App, request: Request) -> Result<Answer, ApiError> {
    let body = body(app, request.into_body());
    let body = timeout(app.config.read, body).await.map_err(|_| ApiError::SlowBody)??;
    let image = image(&body)?;
    let answer = app.batcher.classify(image);
    Ok(timeout(app.config.answer, answer).await.map_err(|_| ApiError::SlowAnswer)??)
}

/// Reads the body, if it is not too large. What is known to be too large is not read.
async fn body(app: &App, body: Body) -> Result<Bytes, ApiError> {
    let most = app.config.body;
    if axum::body::HttpBody::size_hint(&body).lower() > most as u64 {
        return Err(ApiError::TooLarge(most));
    }
    match Limited::new(body, most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(err) if err.is::<http_body_util::LengthLimitError>() => Err(ApiError::TooLarge(most)),
        Err(err) => Err(ApiError::Malformed(format!("the body cannot be read: {err}"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    pixels: Vec<f32>,
}

fn image(body: &[u8]) -> Result<Image, ApiError> {
    let question: Question = serde_json::from_slice(body).map_err(|err| match err.classify() {
        Category::Data => ApiError::Invalid(err.to_string()),
        Category::Io | Category::Syntax | Category::Eof => ApiError::Malformed(err.to_string()),
    })?;
    let count = question.pixels.len();
    let mut image: Image = question
        .pixels
        .try_into()
        .map_err(|_| ApiError::Invalid(format!("there are {count} pixels, expected {PIXELS}")))?;
    if let Some(pixel) = image.iter().find(|it| !(0.0..=16.0).contains(*it)) {
        return Err(ApiError::Invalid(format!("a pixel is {pixel}, expected 0 to 16")));
    }
    image.iter_mut().for_each(|it| *it /= 16.0);
    Ok(image)
}
