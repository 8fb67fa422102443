//! Errors of requests: a status, a kind for programs, a message for people.

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;

use crate::Failure;

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The body is not JSON, or could not be read.
    #[error("{0}")]
    Malformed(String),
    /// The body is JSON, but no image.
    #[error("{0}")]
    Invalid(String),
    /// The body is larger than allowed.
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    /// The body did not come in time.
    #[error("the body did not come in time")]
    SlowBody,
    /// There is no such path.
    #[error("there is no such path; there are /classify, /healthz and /metrics")]
    NotFound,
    /// The path has another method.
    #[error("the path has another method")]
    Method,
    /// The model did not answer in time.
    #[error("there was no answer in time")]
    SlowAnswer,
    /// The model did not answer.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl ApiError {
    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            ApiError::Malformed(_) => StatusCode::BAD_REQUEST,
            ApiError::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            ApiError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ApiError::SlowBody => StatusCode::REQUEST_TIMEOUT,
            ApiError::NotFound => StatusCode::NOT_FOUND,
            ApiError::Method => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::SlowAnswer => StatusCode::GATEWAY_TIMEOUT,
            ApiError::Failed(Failure::Full | Failure::Stopping) => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::Failed(Failure::Model(_)) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The kind, which does not change with the message.
    pub fn kind(&self) -> &'static str {
        match self {
            ApiError::Malformed(_) => "malformed",
            ApiError::Invalid(_) => "invalid",
            ApiError::TooLarge(_) => "too_large",
            ApiError::SlowBody => "slow_body",
            ApiError::NotFound => "not_found",
            ApiError::Method => "method",
            ApiError::SlowAnswer => "slow_answer",
            ApiError::Failed(Failure::Full) => "overloaded",
            ApiError::Failed(Failure::Stopping) => "stopping",
            ApiError::Failed(Failure::Model(_)) => "model",
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        let error = serde_json::json!({ "kind": self.kind(), "message": self.to_string() });
        let body = serde_json::json!({ "error": error }).to_string();
        let mut response =
            (self.status(), [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}
