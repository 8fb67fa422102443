//! The message of a model without the data of its large initializers, which stays in the file.
//!
//! The wire format of protocol buffers is copied field by field from the file: a model has its graph in field 7, a graph its
//! initializers in field 5, a tensor its data in field 9. Where that data is large, it is skipped, and the tensor says where
//! in the file it is.

use std::fs::File;
use std::io::{self, BufReader, Read};

use prost::Message;
use prost::encoding::encode_varint;

use crate::external::IN_FILE;
use crate::proto::{StringStringEntryProto, TensorProto};

/// Data from this size on stays in the file.
const LARGE: u64 = 1 << 12;

/// Numbers of fields in the format.
const GRAPH: u64 = 7;
const INITIALIZER: u64 = 5;
const RAW_DATA: u64 = 9;

/// Wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// Reads the message of the model in `file`, whose tensors with large data are marked with [`IN_FILE`]. `None` if the file
/// does not have the wire format.
pub(crate) fn read(file: &File) -> io::Result<Option<Vec<u8>>> {
    let end = file.metadata()?.len();
    let mut source = Source { reader: BufReader::with_capacity(1 << 16, file), at: 0 };
    source.message(end, &|source, number, len, out| {
        if number != GRAPH {
            return source.copy(len, out);
        }
        let graph = source.message(source.at + len, &|source, number, len, out| match number {
            INITIALIZER if len >= LARGE => source.tensor(len, out),
            _ => source.copy(len, out),
        })?;
        Ok(graph.map(|graph| put_bytes(&graph, out)))
    })
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// What is done with a field of bytes, of which number and length are read: `None` for what is malformed.
type OnBytes<'a> = dyn Fn(&mut Source<'_>, u64, u64, &mut Vec<u8>) -> io::Result<Option<()>> + 'a;

/// A file that is read once from front to back.
struct Source<'f> {
    reader: BufReader<&'f File>,
    at: u64,
}

impl Source<'_> {
    /// Copies the fields up to the place `end`, without their length in front; `on_bytes` writes length and content of fields of bytes.
    fn message(&mut self, end: u64, on_bytes: &OnBytes<'_>) -> io::Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        while self.at < end {
            let Some(key) = self.varint(end)? else { return Ok(None) };
            encode_varint(key, &mut out);
            let done = match key & 7 {
                VARINT => self.varint(end)?.map(|value| encode_varint(value, &mut out)),
                FIXED64 if end - self.at >= 8 => self.append(8, &mut out)?,
                FIXED32 if end - self.at >= 4 => self.append(4, &mut out)?,
                BYTES => match self.varint(end)? {
                    Some(len) if len <= end - self.at => on_bytes(self, key >> 3, len, &mut out)?,
                    _ => None,
                },
                _ => None,
            };
            if done.is_none() {
                return Ok(None);
            }
        }
        Ok((self.at == end).then_some(out))
    }

    /// Copies a tensor of `len` bytes, without its large data.
    fn tensor(&mut self, len: u64, out: &mut Vec<u8>) -> io::Result<Option<()>> {
        let place = std::cell::Cell::new(None);
        let message = self.message(self.at + len, &|source, number, len, out| {
            if number != RAW_DATA || len < LARGE {
                return source.copy(len, out);
            }
            place.set(Some((source.at, len)));
            put_bytes(&[], out);
            source.skip(len)
        })?;
        let Some(mut message) = message else { return Ok(None) };
        if let Some((offset, length)) = place.get() {
            let entry =
                |key: &str, value: u64| StringStringEntryProto { key: key.into(), value: value.to_string() };
            let marked = TensorProto {
                data_location: IN_FILE,
                external_data: vec![entry("offset", offset), entry("length", length)],
                ..TensorProto::default()
            };
            message.extend(marked.encode_to_vec());
        }
        put_bytes(&message, out);
        Ok(Some(()))
    }

    /// Copies length and content of a field of `len` bytes.
    fn copy(&mut self, len: u64, out: &mut Vec<u8>) -> io::Result<Option<()>> {
        encode_varint(len, out);
        self.append(len, out)
    }

    fn append(&mut self, len: u64, out: &mut Vec<u8>) -> io::Result<Option<()>> {
        let got = (&mut self.reader).take(len).read_to_end(out)? as u64;
        self.at += got;
        Ok((got == len).then_some(()))
    }

    fn skip(&mut self, len: u64) -> io::Result<Option<()>> {
        let Ok(offset) = i64::try_from(len) else { return Ok(None) };
        self.reader.seek_relative(offset)?;
        self.at += len;
        Ok(Some(()))
    }

    fn varint(&mut self, end: u64) -> io::Result<Option<u64>> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            if self.at >= end {
                return Ok(None);
            }
            let mut byte = [0];
            self.reader.read_exact(&mut byte)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok((shift < 63 || byte[0] < 2).then_some(value));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;
    use crate::proto::{GraphProto, ModelProto};

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    fn model() -> ModelProto {
        let tensor = |name: &str, len: usize| TensorProto {
            name: name.into(),
            dims: vec![len as i64],
            data_type: 2,
            raw_data: (0..len).map(|i| i as u8).collect::<Vec<u8>>().into(),
            ..TensorProto::default()
        };
        let graph = GraphProto {
            name: "g".into(),
            initializer: vec![tensor("a", 10), tensor("b", 5000), tensor("c", 9000)],
            ..GraphProto::default()
        };
        ModelProto { ir_version: 8, graph: Some(graph), ..ModelProto::default() }
    }

    #[test]
    fn large_data_stays_in_the_file() {
        let bytes = model().encode_to_vec();
        let lean = read(&file(&bytes)).unwrap().unwrap();
        assert!(lean.len() < 300, "{} bytes", lean.len());
        let got = ModelProto::decode(&lean[..]).unwrap().graph.unwrap();
        let want = model().graph.unwrap();
        assert_eq!(got.initializer[0], want.initializer[0]);
        for (got, want) in got.initializer[1..].iter().zip(&want.initializer[1..]) {
            let [offset, length] = ["offset", "length"].map(|key| {
                let entry = got.external_data.iter().find(|it| it.key == key).unwrap();
                entry.value.parse::<usize>().unwrap()
            });
            assert_eq!((got.data_location, &got.dims), (IN_FILE, &want.dims));
            assert_eq!(bytes[offset..offset + length], want.raw_data[..]);
        }
    }

    /// What is cut or damaged is no message, or one that decodes without the large data as it does with it.
    #[test]
    fn damaged_files() {
        let bytes = model().encode_to_vec();
        for end in (0..bytes.len()).step_by(61) {
            let lean = read(&file(&bytes[..end])).unwrap();
            if let Some(lean) = lean {
                assert_eq!(
                    ModelProto::decode(&lean[..]).is_ok(),
                    ModelProto::decode(&bytes[..end]).is_ok(),
                    "{end}"
                );
            }
        }
        assert!(read(&file(&[0xff; 20])).unwrap().is_none());
        assert!(read(&file(&[GRAPH as u8 * 8 + 2, 200])).unwrap().is_none());
    }
}
