//! The artifact: an executable as bytes.

/// Why bytes are not a valid artifact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The bytes do not start like an artifact.
    #[error("not an artifact")]
    Magic,
}
