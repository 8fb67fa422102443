//! Tensor data outside of the message of the model: in the file of the model itself, and in files next to it. This is the
//! only part of the importer that reads such data.
//!
//! A location is a relative path below the model's directory. Neither the file nor a directory on the path may be a symbolic
//! link; the file must be a regular file without further hard links; offset and length must lie inside it. So a model cannot
//! make the importer read anything that was not put next to it. On Unix, the directory is opened once, and every step of the
//! path is opened relative to the descriptor of the previous step, so renaming during the import has no effect.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::OnnxError;
use crate::names::show;
use crate::proto::TensorProto;

/// Location of data in the file of the model itself. The format does not have it; [`lean`](crate::lean) sets it.
pub(crate) const IN_FILE: i32 = 2;

/// Source of external data.
#[derive(Clone, Debug)]
pub(crate) struct ExternalData {
    dir: Option<Arc<Result<Dir, String>>>,
    /// The file of the model.
    own: Option<Arc<Mutex<File>>>,
}

impl ExternalData {
    /// External data is not allowed.
    pub(crate) fn none() -> ExternalData {
        ExternalData { dir: None, own: None }
    }

    /// External data is read from files below `dir`.
    pub(crate) fn below(dir: &Path) -> ExternalData {
        ExternalData { dir: Some(Arc::new(Dir::open(dir))), own: None }
    }

    /// Data in the file of the model is read from `own`.
    pub(crate) fn with_file(self, own: Option<Arc<Mutex<File>>>) -> ExternalData {
        ExternalData { own, ..self }
    }

    /// Finds the data of `proto`, which takes `size` bytes.
    pub(crate) fn find(&self, proto: &TensorProto, size: usize) -> Result<Data<'_>, OnnxError> {
        let tensor = show(&proto.name);
        let find = || {
            // The last entry holds, as in other repeated fields of which one is meant.
            let value = |key: &str| proto.external_data.iter().rfind(|it| it.key == key).map(|it| &*it.value);
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
            if proto.data_location == IN_FILE {
                let own = self.own.as_deref().ok_or("the model is in no file")?;
                check_range(&own.lock().unwrap_or_else(PoisonError::into_inner), offset, size)?;
                return Ok((Source::Own(own), offset));
            }
            let location = value("location").ok_or("no location is given")?;
            let dir = self.dir.as_deref().ok_or("the model has no directory to read it from")?;
            let file = open(dir.as_ref().map_err(Clone::clone)?, location)?;
            check_range(&file, offset, size)?;
            Ok((Source::Other(file), offset))
        };
        match find() {
            Ok((source, offset)) => Ok(Data { source, offset, tensor }),
            Err(message) => Err(OnnxError::External { tensor, message }),
        }
    }
}

/// The data of a tensor in a file.
pub(crate) struct Data<'f> {
    source: Source<'f>,
    offset: u64,
    tensor: String,
}

enum Source<'f> {
    Own(&'f Mutex<File>),
    Other(File),
}

impl Data<'_> {
    /// Reads the data into `bytes`, which have its size.
    pub(crate) fn read(self, bytes: &mut [u8]) -> Result<(), OnnxError> {
        let from = |mut file: &File, bytes: &mut [u8]| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_exact(bytes)
        };
        let res = match &self.source {
            Source::Own(file) => from(&file.lock().unwrap_or_else(PoisonError::into_inner), bytes),
            Source::Other(file) => from(file, bytes),
        };
        res.map_err(|err| OnnxError::External { tensor: self.tensor, message: err.to_string() })
    }
}

fn check_range(file: &File, offset: u64, size: usize) -> Result<(), String> {
    let len = file.metadata().map_err(|err| err.to_string())?.len();
    if offset.checked_add(size as u64).is_none_or(|end| end > len) {
        return Err(format!("{size} bytes at offset {offset} lie outside of a file of {len} bytes"));
    }
    Ok(())
}

/// Opens the file at `location`, after checking that it may be read.
fn open(dir: &Dir, location: &str) -> Result<File, String> {
    let shown = show(location);
    let relative = Path::new(location);
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if location.is_empty() || location.contains(['\0', '\\']) || !relative.components().all(plain) {
        return Err(format!("location `{shown}` is not a path below the model's directory"));
    }
    let steps = relative.components().filter(|part| matches!(part, Component::Normal(_)));
    let steps: Vec<&Path> = steps.map(|part| Path::new(part.as_os_str())).collect();
    let file = dir.file(&steps).map_err(|why| format!("location `{shown}` {why}"))?;
    let meta = file.metadata().map_err(|err| format!("location `{shown}`: {err}"))?;
    check_file(&meta).map_err(|why| format!("location `{shown}` {why}"))?;
    Ok(file)
}

fn check_file(meta: &Metadata) -> Result<(), &'static str> {
    if !meta.is_file() {
        return Err("is not a regular file");
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(meta) != 1 {
        return Err("has further hard links; put a copy there");
    }
    Ok(())
}

const IS_LINK: &str = "is a symbolic link; put the file itself there";
const THROUGH_LINK: &str = "goes through a symbolic link, or through what is no directory";

/// The model's directory, as a descriptor.
#[cfg(unix)]
#[derive(Debug)]
struct Dir(std::os::fd::OwnedFd);

#[cfg(unix)]
impl Dir {
    fn open(dir: &Path) -> Result<Dir, String> {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, dir, flags, Mode::empty()).map(Dir).map_err(|err| format!("the model's directory: {err}"))
    }

    /// Opens the file at the end of the path `steps`, step by step, without following links.
    fn file(&self, steps: &[&Path]) -> Result<File, String> {
        use rustix::fs::{Mode, OFlags, openat};
        use rustix::io::Errno;
        let Some((last, way)) = steps.split_last() else { return Err("is not a regular file".into()) };
        let shared = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut inner: Option<std::os::fd::OwnedFd> = None;
        for step in way {
            let next =
                openat(inner.as_ref().unwrap_or(&self.0), *step, shared | OFlags::DIRECTORY, Mode::empty());
            inner = Some(next.map_err(|err| match err {
                Errno::LOOP | Errno::NOTDIR => THROUGH_LINK.to_string(),
                err => format!("cannot be opened: {}", std::io::Error::from(err)),
            })?);
        }
        // Opening a pipe without a writer must not block the import.
        let file = openat(inner.as_ref().unwrap_or(&self.0), *last, shared | OFlags::NONBLOCK, Mode::empty());
        file.map(File::from).map_err(|err| match err {
            Errno::LOOP => IS_LINK.to_string(),
            err => format!("cannot be opened: {}", std::io::Error::from(err)),
        })
    }
}

/// The model's directory, as a path. Names are checked before the file is opened.
#[cfg(not(unix))]
#[derive(Debug)]
struct Dir(std::path::PathBuf);

#[cfg(not(unix))]
impl Dir {
    fn open(dir: &Path) -> Result<Dir, String> {
        dir.canonicalize().map(Dir).map_err(|err| format!("the model's directory: {err}"))
    }

    fn file(&self, steps: &[&Path]) -> Result<File, String> {
        let mut path = self.0.clone();
        for (i, step) in steps.iter().enumerate() {
            path.push(step);
            let meta = std::fs::symlink_metadata(&path).map_err(|err| format!("cannot be opened: {err}"))?;
            if meta.file_type().is_symlink() {
                return Err(if i + 1 == steps.len() { IS_LINK } else { THROUGH_LINK }.to_string());
            }
        }
        File::open(&path).map_err(|err| format!("cannot be opened: {err}"))
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};

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

    /// While a directory on the path is replaced by a link and back, only data from the real directory is read.
    #[test]
    fn a_directory_swapped_for_a_link_leads_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| -> PathBuf { root.path().join(name) };
        fs::create_dir_all(at("model/real")).unwrap();
        fs::create_dir_all(at("outside")).unwrap();
        let bytes = |value: f32| [value, value].iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
        fs::write(at("model/real/w.bin"), bytes(1.0)).unwrap();
        fs::write(at("outside/w.bin"), bytes(666.0)).unwrap();
        std::os::unix::fs::symlink(at("outside"), at("model/link")).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for name in ["model/real", "model/link"] {
                        fs::rename(at(name), at("model/sub")).unwrap();
                        std::thread::yield_now();
                        fs::rename(at("model/sub"), at(name)).unwrap();
                    }
                }
            });
            let external = ExternalData::below(&at("model"));
            let (mut read, mut refused) = (0, 0);
            for _ in 0..20_000 {
                match decode_tensor(&proto(&[("location", "sub/w.bin")]), &external, MAX_TENSOR_BYTES) {
                    Ok(tensor) => {
                        read += 1;
                        let got = tensor.to_vec::<f32>().unwrap();
                        if got != [1.0, 1.0] {
                            done.store(true, Ordering::Relaxed);
                            panic!("read {got:?} from outside");
                        }
                    }
                    Err(_) => refused += 1,
                }
            }
            done.store(true, Ordering::Relaxed);
            assert!(read > 0 && refused > 0, "{read} read, {refused} refused: nothing was swapped");
        });
    }
}
