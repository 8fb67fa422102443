//! Tensor data in files beside the model: the only place of the importer that reads files.
//!
//! A location is a relative path below the model's directory. Neither the file nor a directory on the way may be a
//! symbolic link, the file must be a regular one without further hard links, and offset and length must lie inside
//! it: a model cannot make the importer read anything that was not put beside it.

use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use crate::error::OnnxError;
use crate::names::show;
use crate::proto::TensorProto;

/// Where external data may come from.
#[derive(Clone, Debug)]
pub(crate) struct ExternalData(Option<PathBuf>);

impl ExternalData {
    /// No external data.
    pub(crate) fn none() -> ExternalData {
        ExternalData(None)
    }

    /// Files below `dir`.
    pub(crate) fn below(dir: &Path) -> ExternalData {
        ExternalData(Some(dir.to_path_buf()))
    }

    /// The `size` bytes of `proto`'s data.
    pub(crate) fn read(&self, proto: &TensorProto, size: usize) -> Result<Vec<u8>, OnnxError> {
        let read = || {
            let value = |key: &str| proto.external_data.iter().find(|it| it.key == key).map(|it| &*it.value);
            let location = value("location").ok_or("no location is given")?;
            let number = |key: &str| match value(key) {
                None | Some("") => Ok(None),
                Some(text) => {
                    text.parse::<u64>().map(Some).map_err(|_| format!("{key} `{}` is not a size", show(text)))
                }
            };
            let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
            if let Some(length) = length.filter(|&it| it != size as u64) {
                return Err(format!("length is {length}, the shape takes {size} bytes"));
            }
            let dir = self.0.as_deref().ok_or("the model has no directory to read it from")?;
            read_range(&open(dir, location)?, offset, size)
        };
        read().map_err(|message| OnnxError::External { tensor: show(&proto.name), message })
    }
}

fn read_range(mut file: &File, offset: u64, size: usize) -> Result<Vec<u8>, String> {
    let len = file.metadata().map_err(|err| err.to_string())?.len();
    if offset.checked_add(size as u64).is_none_or(|end| end > len) {
        return Err(format!("{size} bytes at offset {offset} lie outside of a file of {len} bytes"));
    }
    let mut bytes = vec![0; size];
    file.seek(SeekFrom::Start(offset)).map_err(|err| err.to_string())?;
    file.read_exact(&mut bytes).map_err(|err| err.to_string())?;
    Ok(bytes)
}

fn open(dir: &Path, location: &str) -> Result<File, String> {
    let shown = show(location);
    let relative = Path::new(location);
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if location.is_empty() || location.contains(['\0', '\\']) || !relative.components().all(plain) {
        return Err(format!("location `{shown}` is not a path below the model's directory"));
    }
    let io = |err: std::io::Error| format!("location `{shown}`: {err}");
    let dir = dir.canonicalize().map_err(io)?;
    let path: PathBuf = dir.join(relative).components().collect();
    let parent = path.parent().unwrap_or(&dir);
    if parent.canonicalize().map_err(io)? != parent || !parent.starts_with(&dir) {
        return Err(format!("location `{shown}` goes through a symbolic link"));
    }
    let before = fs::symlink_metadata(&path).map_err(io)?;
    check_file(&before).map_err(|why| format!("location `{shown}` {why}"))?;
    let file = File::open(&path).map_err(io)?;
    let after = file.metadata().map_err(io)?;
    check_file(&after).map_err(|why| format!("location `{shown}` {why}"))?;
    if !same_file(&before, &after) {
        return Err(format!("location `{shown}` was replaced while it was opened"));
    }
    Ok(file)
}

fn check_file(meta: &Metadata) -> Result<(), &'static str> {
    if meta.file_type().is_symlink() {
        return Err("is a symbolic link; put the file itself there");
    }
    if !meta.is_file() {
        return Err("is not a regular file");
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(meta) != 1 {
        return Err("has further hard links; put a copy there");
    }
    Ok(())
}

#[cfg(unix)]
fn same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn same_file(a: &Metadata, b: &Metadata) -> bool {
    a.len() == b.len()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::StringStringEntryProto;
    use crate::tensor::{MAX_TENSOR_BYTES, decode_tensor};

    fn proto(entries: &[(&str, &str)]) -> TensorProto {
        let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
            key: key.to_string(),
            value: value.to_string(),
        };
        TensorProto {
            dims: vec![2],
            data_type: 1,
            name: "w".into(),
            data_location: 1,
            external_data: entries.iter().map(entry).collect(),
            ..TensorProto::default()
        }
    }

    #[test]
    fn only_plain_files_below_the_directory_are_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("model");
        fs::create_dir_all(dir.join("sub")).unwrap();
        let bytes: Vec<u8> = [1.0f32, 2.0, 3.0].iter().flat_map(|it| it.to_le_bytes()).collect();
        for file in ["secret.bin", "model/w.bin", "model/sub/w.bin", "model/hard1.bin"] {
            fs::write(root.path().join(file), &bytes).unwrap();
        }
        fs::hard_link(dir.join("hard1.bin"), dir.join("hard2.bin")).unwrap();
        std::os::unix::fs::symlink(root.path().join("secret.bin"), dir.join("link.bin")).unwrap();
        std::os::unix::fs::symlink(root.path(), dir.join("linkdir")).unwrap();
        let absolute = dir.join("w.bin").display().to_string();
        type Case<'a> = (&'a [(&'a str, &'a str)], Result<[f32; 2], &'a str>);
        let cases: &[Case<'_>] = &[
            (&[("location", "w.bin")], Ok([1.0, 2.0])),
            (&[("location", "./sub/w.bin"), ("offset", "4"), ("length", "8")], Ok([2.0, 3.0])),
            (&[("location", "w.bin"), ("offset", "8")], Err("outside of a file of 12 bytes")),
            (&[("location", "w.bin"), ("offset", "18446744073709551615")], Err("outside of a file")),
            (&[("location", "w.bin"), ("offset", "-4")], Err("offset `-4` is not a size")),
            (&[("location", "w.bin"), ("length", "4611686018427387904")], Err("the shape takes 8 bytes")),
            (&[("location", "../secret.bin")], Err("not a path below")),
            (&[("location", "sub/../../secret.bin")], Err("not a path below")),
            (&[("location", &absolute)], Err("not a path below")),
            (&[("location", "/dev/zero")], Err("not a path below")),
            (&[("location", "link.bin")], Err("is a symbolic link")),
            (&[("location", "linkdir/secret.bin")], Err("goes through a symbolic link")),
            (&[("location", "hard2.bin")], Err("further hard links")),
            (&[("location", "sub")], Err("not a regular file")),
            (&[("location", "")], Err("not a path below")),
            (&[("location", "nope.bin")], Err("No such file")),
            (&[], Err("no location")),
        ];
        for (entries, want) in cases {
            let got = decode_tensor(&proto(entries), &ExternalData::below(&dir), MAX_TENSOR_BYTES);
            match (got, want) {
                (Ok(got), Ok(want)) => assert_eq!(got.to_vec::<f32>().unwrap(), want),
                (Err(err), Err(want)) => assert!(err.to_string().contains(want), "{entries:?}: {err}"),
                (got, _) => panic!("{entries:?}: {got:?}, expected {want:?}"),
            }
        }
    }
}
