//! The artifact: an executable as bytes, to be loaded on another day or machine.
//!
//! TVM counterpart: `Executable::Save`/`Load` and the kernel library beside it; here one file holds both.
//!
//! Layout, all little-endian:
//! - header: magic, format version, ABI version, compiler version, number of sections, length of the whole, checksum of
//!   header and section table;
//! - section table: number, offset, length and checksum of each section;
//! - the sections of [`SECTIONS`], each once, in that order, each at the next multiple of 64 bytes; the gaps are zero.
//!
//! Tensors of the constant pool start at multiples of 64 bytes, so a mapped file needs no copy. The reader checks
//! every length before it allocates, leaves no byte unread, and ends with the [verifier](crate::vm::verify); so bytes
//! that load without an error are a program that runs without a panic. Kernel objects are machine code: running them
//! takes the trust that running a program takes.

mod checksum;
mod code;
mod codec;
mod container;
mod load;
mod save;

#[cfg(test)]
pub(crate) use container::with_abi;
pub use container::{ArtifactInfo, FORMAT_VERSION, SECTIONS, inspect};

/// Why bytes are not a valid artifact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The bytes do not start like an artifact.
    #[error("not an artifact: it does not start with the magic bytes")]
    Magic,
    /// Another version of the format.
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
    /// Kernels for another version of the ABI.
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
    /// The bytes end early, or go on after the end.
    #[error("artifact of {expected} bytes, got {got}")]
    Length {
        /// Length that the header says.
        expected: u64,
        /// Bytes there are.
        got: u64,
    },
    /// Bytes that changed.
    #[error("damaged artifact: wrong checksum of the {section}")]
    Checksum {
        /// Which part.
        section: &'static str,
    },
    /// Bytes that mean nothing.
    #[error("malformed artifact: {section} at byte {at}: {message}")]
    Malformed {
        /// Which part.
        section: &'static str,
        /// Offset in that part.
        at: usize,
        /// What is wrong.
        message: String,
    },
    /// An executable that the format cannot express.
    #[error("cannot be saved: {0}")]
    Unsavable(String),
}

#[cfg(test)]
mod tests;
