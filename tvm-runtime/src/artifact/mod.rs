//! The artifact: a serialised executable, to be loaded later or on another machine.
//!
//! TVM counterpart: `Executable::Save`/`Load` and the kernel library next to it; here one file holds both.
//!
//! Layout, all little-endian:
//! - header: magic, format version, ABI version, compiler version, number of sections, length of the whole, checksum of
//!   header and section table;
//! - section table: number, offset, length and checksum of each section;
//! - the sections of [`SECTIONS`], each once, in that order, each at the next multiple of 64 bytes; the gaps are zero.
//!
//! Tensors of the constant pool start at multiples of 64 bytes, so a mapped file needs no copy. The reader checks every
//! length before it allocates, leaves no byte unread, and runs the [verifier](crate::vm::verify) last. Bytes that load
//! without an error are therefore a program that runs without a panic. So are the launches of [kernels for GPUs](GpuUnit), which are
//! checked as well. Objects are code: running
//! them requires the same trust as running a program, and the loaders of imported modules check them.

mod checksum;
mod code;
mod codec;
mod container;
mod gpu;
mod load;
mod save;

#[cfg(test)]
pub(crate) use container::with_abi;
pub use container::{ArtifactInfo, FORMAT_VERSION, SECTIONS, inspect};
pub use gpu::{GpuProgram, GpuUnit};

/// Why bytes are not a valid artifact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The bytes do not start with the magic bytes of an artifact.
    #[error("not an artifact: it does not start with the magic bytes")]
    Magic,
    /// The artifact has another format version.
    #[error(
        "artifact of format version {got} (made by tvm {compiler}), this runtime reads version {expected}; compile it again"
    )]
    FormatVersion {
        /// Version that this runtime reads.
        expected: u32,
        /// Version of the artifact.
        got: u32,
        /// Version of the compiler that made it.
        compiler: String,
    },
    /// The kernels were compiled for another ABI version.
    #[error(
        "artifact for ABI version {got} (made by tvm {compiler}), this runtime has version {expected}; compile it again"
    )]
    AbiVersion {
        /// Version of this runtime.
        expected: u32,
        /// Version of the artifact.
        got: u32,
        /// Version of the compiler that made it.
        compiler: String,
    },
    /// The bytes end early, or continue after the end.
    #[error("artifact of {expected} bytes, got {got}")]
    Length {
        /// Length according to the header.
        expected: u64,
        /// Number of bytes present.
        got: u64,
    },
    /// The bytes of a section or of the header do not match their checksum.
    #[error("damaged artifact: wrong checksum of the {section}")]
    Checksum {
        /// Name of the section, or `header`.
        section: &'static str,
    },
    /// The bytes do not follow the format.
    #[error("malformed artifact: {section} at byte {at}: {message}")]
    Malformed {
        /// Name of the section, or `header`.
        section: &'static str,
        /// Byte offset in that section.
        at: usize,
        /// Description of the violation.
        message: String,
    },
    /// An executable that the format cannot express.
    #[error("cannot be saved: {0}")]
    Unsavable(String),
}

#[cfg(test)]
mod tests;
