//! Recordings: reading and writing of WAV files with 16-bit samples. Of several channels, the first is read.

use std::io;
use std::path::Path;

/// Samples in -1..=1, and their number per second.
#[derive(Debug, PartialEq)]
pub(crate) struct Recording {
    pub(crate) samples: Vec<f32>,
    pub(crate) rate: u32,
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl Recording {
    pub(crate) fn read(path: &Path) -> io::Result<Recording> {
        Recording::from_bytes(&std::fs::read(path)?)
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.to_bytes())
    }

    fn from_bytes(bytes: &[u8]) -> io::Result<Recording> {
        if bytes.get(..4) != Some(b"RIFF") || bytes.get(8..12) != Some(b"WAVE") {
            return Err(invalid("not a WAV file"));
        }
        let mut rest = &bytes[12..];
        let mut format: Option<(usize, u32)> = None;
        while let Some((head, tail)) = rest.split_at_checked(8) {
            let (name, size) = head.split_at(4);
            let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
            let (chunk, after) = tail.split_at_checked(size).unwrap_or((tail, &[]));
            match name {
                b"fmt " => {
                    let short = |at: usize| Some(u16::from_le_bytes([*chunk.get(at)?, *chunk.get(at + 1)?]));
                    let (Some(1), Some(channels @ 1..), Some(low), Some(high), Some(16)) =
                        (short(0), short(2), short(4), short(6), short(14))
                    else {
                        return Err(invalid("expected plain 16-bit samples"));
                    };
                    format = Some((channels.into(), u32::from(low) | u32::from(high) << 16));
                }
                b"data" => {
                    let (channels, rate) = format.ok_or_else(|| invalid("samples before their format"))?;
                    let first = chunk.chunks_exact(2 * channels).map(|it| i16::from_le_bytes([it[0], it[1]]));
                    let samples = first.map(|it| f32::from(it) / 32768.0).collect();
                    return Ok(Recording { samples, rate });
                }
                _ => {}
            }
            // A chunk of odd size is padded with one byte.
            rest = after.get(size % 2..).unwrap_or_default();
        }
        Err(invalid("no samples"))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let data = self.samples.iter().flat_map(|it| ((it * 32767.0).round() as i16).to_le_bytes());
        let size = 2 * self.samples.len() as u32;
        let mut bytes = b"RIFF".to_vec();
        bytes.extend((36 + size).to_le_bytes());
        bytes.extend(b"WAVEfmt ");
        for word in [16, 1 | 1 << 16, self.rate, 2 * self.rate, 2 | 16 << 16] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(b"data");
        bytes.extend(size.to_le_bytes());
        bytes.extend(data);
        bytes
    }
}

#[test]
fn what_is_written_is_read() {
    let samples = vec![0.0, 0.5, -0.5, 1.0, -1.0];
    let recording = Recording { samples, rate: 16_000 };
    let read = Recording::from_bytes(&recording.to_bytes()).unwrap();
    assert_eq!(read.rate, recording.rate);
    assert_eq!(read.samples.len(), recording.samples.len());
    for (got, want) in read.samples.iter().zip(&recording.samples) {
        assert!((got - want).abs() < 1e-4, "{got} instead of {want}");
    }
}

#[test]
fn other_files_are_refused() {
    let good = Recording { samples: vec![0.0; 4], rate: 8000 }.to_bytes();
    let cases: [(&[u8], &str); 4] = [
        (b"", "not a WAV file"),
        (b"RIFF\0\0\0\0AVI fmt ", "not a WAV file"),
        (&good[..20], "expected plain 16-bit samples"),
        (&good[..36], "no samples"),
    ];
    for (bytes, message) in cases {
        assert_eq!(Recording::from_bytes(bytes).unwrap_err().to_string(), message);
    }
    // A file that ends early has the samples that are there.
    assert_eq!(Recording::from_bytes(&good[..48]).unwrap().samples.len(), 2);
}
