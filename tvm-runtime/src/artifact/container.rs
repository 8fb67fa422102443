//! Header and section table of an artifact.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use super::ArtifactError;
use super::checksum::{checksum, checksum_of};
use crate::abi::ABI_VERSION;
use crate::tensor::ALIGNMENT;

/// Version of everything in this folder; a reader refuses every other version.
pub const FORMAT_VERSION: u32 = 3;

const MAGIC: [u8; 8] = *b"TVM-RS\r\n";
/// Size of the compiler version in bytes; it is padded with zeros.
const COMPILER_LEN: usize = 24;
const HEADER_LEN: usize = 64;
const ENTRY_LEN: usize = 32;

/// Names of the sections, in order; the number of a section is its index here.
pub const SECTIONS: [&str; 9] = [
    "target section",
    "global section",
    "constant section",
    "constant data",
    "kernel section",
    "packed section",
    "code section",
    "object section",
    "object data",
];

/// Contents of all sections.
pub(super) type Sections<T> = [T; SECTIONS.len()];

/// Offsets of the fields in the header.
mod at {
    pub(super) const FORMAT: usize = 8;
    pub(super) const ABI: usize = 12;
    pub(super) const COMPILER: usize = 16;
    pub(super) const COUNT: usize = 40;
    pub(super) const RESERVED: usize = 44;
    pub(super) const LENGTH: usize = 48;
    pub(super) const CHECKSUM: usize = 56;
}

/// Contents of the header and section table of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactInfo {
    /// Version of the format.
    pub format_version: u32,
    /// Version of the kernel ABI.
    pub abi_version: u32,
    /// Version of the compiler.
    pub compiler: String,
    /// Name and size in bytes of each section.
    pub sections: Vec<(&'static str, u64)>,
}

impl fmt::Display for ArtifactInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArtifactInfo { format_version, abi_version, compiler, sections } = self;
        writeln!(f, "tvm artifact, format {format_version}, ABI {abi_version}, made by tvm {compiler}")?;
        sections.iter().try_for_each(|(name, len)| writeln!(f, "{len:>12} bytes  {name}"))
    }
}

/// Reads header and section table of an artifact and verifies all checksums, without decoding the sections.
pub fn inspect(bytes: &[u8]) -> Result<ArtifactInfo, ArtifactError> {
    let places = sections(bytes, true)?;
    let len = |place: &Range<usize>| place.len() as u64;
    Ok(ArtifactInfo {
        format_version: FORMAT_VERSION,
        abi_version: ABI_VERSION,
        compiler: compiler(bytes),
        sections: SECTIONS.into_iter().zip(places.iter().map(len)).collect(),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

fn compiler(bytes: &[u8]) -> String {
    let text = bytes.get(at::COMPILER..at::COMPILER + COMPILER_LEN).unwrap_or_default();
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Checksum of header and section table, computed with zeros in place of the checksum itself.
fn header_checksum(head: &[u8]) -> u64 {
    let mut head = head.to_vec();
    head[at::CHECKSUM..at::CHECKSUM + 8].fill(0);
    checksum(&head)
}

/// The bytes of a section, in pieces that lie elsewhere.
#[derive(Default)]
pub(super) struct Pieces<'a> {
    pieces: Vec<&'a [u8]>,
    len: usize,
}

impl<'a> Pieces<'a> {
    pub(super) fn one(bytes: &'a [u8]) -> Pieces<'a> {
        Pieces { pieces: vec![bytes], len: bytes.len() }
    }

    pub(super) fn push(&mut self, bytes: &'a [u8]) {
        self.pieces.push(bytes);
        self.len += bytes.len();
    }

    /// Appends zeros up to the next aligned place.
    pub(super) fn align(&mut self) {
        self.push(gap(self.len));
    }
}

/// The zeros between the end of a section and the next aligned place.
fn gap(len: usize) -> &'static [u8] {
    &[0; ALIGNMENT][..len.next_multiple_of(ALIGNMENT) - len]
}

/// Writes header, section table and sections.
pub(super) fn write(sections: &Sections<Pieces<'_>>, out: &mut impl Write) -> io::Result<()> {
    let head_len = HEADER_LEN + SECTIONS.len() * ENTRY_LEN;
    let mut head = vec![0; head_len];
    let mut end = head_len;
    for (i, section) in sections.iter().enumerate() {
        let start = end.next_multiple_of(ALIGNMENT);
        let entry = [i as u64, start as u64, section.len as u64, checksum_of(&section.pieces)];
        let place = HEADER_LEN + i * ENTRY_LEN;
        for (j, field) in entry.iter().enumerate() {
            head[place + 8 * j..][..8].copy_from_slice(&field.to_le_bytes());
        }
        end = start + section.len;
    }
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut put = |at: usize, field: &[u8]| head[at..at + field.len()].copy_from_slice(field);
    put(0, &MAGIC);
    put(at::FORMAT, &FORMAT_VERSION.to_le_bytes());
    put(at::ABI, &ABI_VERSION.to_le_bytes());
    put(at::COMPILER, &version[..version.len().min(COMPILER_LEN)]);
    put(at::COUNT, &(SECTIONS.len() as u32).to_le_bytes());
    put(at::LENGTH, &(end as u64).to_le_bytes());
    let sum = header_checksum(&head);
    head[at::CHECKSUM..at::CHECKSUM + 8].copy_from_slice(&sum.to_le_bytes());

    out.write_all(&head)?;
    let mut end = head_len;
    for section in sections {
        out.write_all(gap(end))?;
        section.pieces.iter().try_for_each(|piece| out.write_all(piece))?;
        end = end.next_multiple_of(ALIGNMENT) + section.len;
    }
    Ok(())
}

/// Checks header, section table, gaps and (with `check_sums`) checksums without decoding a section; returns the range
/// of each section.
pub(super) fn sections(bytes: &[u8], check_sums: bool) -> Result<Sections<Range<usize>>, ArtifactError> {
    const HEAD: &str = "header";
    let malformed =
        |at, message: &str| Err(ArtifactError::Malformed { section: HEAD, at, message: message.to_string() });
    if !bytes.starts_with(&MAGIC) {
        return Err(ArtifactError::Magic);
    }
    let (expected, got) = (FORMAT_VERSION, u32_at(bytes, at::FORMAT));
    if expected != got {
        return Err(ArtifactError::FormatVersion { expected, got, compiler: compiler(bytes) });
    }
    let head_len = HEADER_LEN + SECTIONS.len() * ENTRY_LEN;
    let length = u64_at(bytes, at::LENGTH);
    if bytes.len() < head_len || length != bytes.len() as u64 {
        return Err(ArtifactError::Length { expected: length.max(head_len as u64), got: bytes.len() as u64 });
    }
    if check_sums && u64_at(bytes, at::CHECKSUM) != header_checksum(&bytes[..head_len]) {
        return Err(ArtifactError::Checksum { section: HEAD });
    }
    let (expected, got) = (ABI_VERSION, u32_at(bytes, at::ABI));
    if expected != got {
        return Err(ArtifactError::AbiVersion { expected, got, compiler: compiler(bytes) });
    }
    if u32_at(bytes, at::COUNT) as usize != SECTIONS.len() || u32_at(bytes, at::RESERVED) != 0 {
        return malformed(at::COUNT, "another number of sections");
    }
    let mut places = [const { 0..0 }; SECTIONS.len()];
    let mut end = head_len;
    for (i, (place, section)) in places.iter_mut().zip(SECTIONS).enumerate() {
        let entry = HEADER_LEN + i * ENTRY_LEN;
        let [number, offset, len, sum] = [0, 8, 16, 24].map(|at| u64_at(bytes, entry + at));
        let start = end.next_multiple_of(ALIGNMENT);
        if number != i as u64 || offset != start as u64 {
            return malformed(entry, "a section out of place");
        }
        let stop = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        let Some(stop) = stop.filter(|&stop| stop <= bytes.len()) else {
            return malformed(entry, "a section that is longer than the artifact");
        };
        if bytes[end..start].iter().any(|&byte| byte != 0) {
            return malformed(end, "a gap that is not zero");
        }
        if check_sums && checksum(&bytes[start..stop]) != sum {
            return Err(ArtifactError::Checksum { section });
        }
        *place = start..stop;
        end = stop;
    }
    if end != bytes.len() {
        return Err(ArtifactError::Length { expected: end as u64, got: bytes.len() as u64 });
    }
    Ok(places)
}

/// The artifact `bytes` with the given ABI version and a valid header checksum.
#[cfg(test)]
pub(crate) fn with_abi(mut bytes: Vec<u8>, version: u32) -> Vec<u8> {
    let head_len = HEADER_LEN + SECTIONS.len() * ENTRY_LEN;
    bytes[at::ABI..at::ABI + 4].copy_from_slice(&version.to_le_bytes());
    let sum = header_checksum(&bytes[..head_len]);
    bytes[at::CHECKSUM..at::CHECKSUM + 8].copy_from_slice(&sum.to_le_bytes());
    bytes
}
