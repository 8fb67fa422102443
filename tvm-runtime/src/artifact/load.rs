//! Loading of artifacts.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::codec::{Codec, Reader};
use super::container::{SECTIONS, sections};
use super::save::constant;
use super::{ArtifactError, GpuUnit};
use crate::error::RuntimeError;
use crate::tensor::{ALIGNMENT, Storage, Tensor};
use crate::vm::{CodeObject, Constant, Executable, VmFunction, verify};

impl Executable {
    /// Reads an executable and copies its constants.
    pub fn load(bytes: &[u8]) -> Result<Executable, RuntimeError> {
        read(bytes, Constants::Copied, true)
    }

    /// Reads an executable that is embedded in the application. If `bytes` are aligned, the constants are used in
    /// place.
    pub fn load_static(bytes: &'static [u8]) -> Result<Executable, RuntimeError> {
        read(bytes, Constants::Shared(&Storage::from_static(bytes)), true)
    }

    /// Maps a file and reads the executable in it. The constants stay in the mapped file; the file must not change
    /// while they are in use.
    pub fn load_file(path: impl AsRef<Path>) -> Result<Executable, RuntimeError> {
        let storage = Storage::map_file(path.as_ref())?;
        read(storage.bytes()?, Constants::Shared(&storage), true)
    }

    /// As [`Executable::load`], but without checking the checksums, so that tests reach all the other checks.
    #[doc(hidden)]
    pub fn load_ignoring_checksums(bytes: &[u8]) -> Result<Executable, RuntimeError> {
        read(bytes, Constants::Copied, false)
    }
}

/// Where the constants of a loaded executable are stored.
#[derive(Clone, Copy)]
enum Constants<'a> {
    Copied,
    /// Shared with this storage, which holds the whole artifact.
    Shared(&'a Storage),
}

fn read(bytes: &[u8], from: Constants<'_>, check_sums: bool) -> Result<Executable, RuntimeError> {
    let places = sections(bytes, check_sums)?;
    let reader = |i: usize| Reader::new(SECTIONS[i], &bytes[places[i].clone()]);

    let mut r = reader(0);
    let (target, metadata) = (Codec::get(&mut r)?, Codec::get(&mut r)?);
    r.finish()?;

    let (mut globals, mut code) = (reader(1), reader(6));
    let mut functions = Vec::new();
    for _ in 0..u64::get(&mut globals)? {
        functions.push(VmFunction {
            name: Codec::get(&mut globals)?,
            params: Codec::get(&mut globals)?,
            ret: Codec::get(&mut globals)?,
            num_regs: Codec::get(&mut globals)?,
            public: Codec::get(&mut globals)?,
            code: Codec::get(&mut code)?,
        });
    }
    globals.finish()?;
    code.finish()?;

    let mut r = reader(2);
    let mut data = Data::new(bytes, places[3].clone(), SECTIONS[3]);
    let mut constants = Vec::new();
    for _ in 0..u64::get(&mut r)? {
        constants.push(read_constant(&mut r, &mut data, from)?);
    }
    r.finish()?;
    data.finish()?;

    let mut r = reader(4);
    let kernels = Codec::get(&mut r)?;
    r.finish()?;
    let mut r = reader(5);
    let packed = Codec::get(&mut r)?;
    r.finish()?;

    let mut r = reader(7);
    let mut data = Data::new(bytes, places[8].clone(), SECTIONS[8]);
    let mut objects = Vec::new();
    for _ in 0..u64::get(&mut r)? {
        let (name, kind) = (Codec::get(&mut r)?, Codec::get(&mut r)?);
        let place = data.next(u64::get(&mut r)?)?;
        objects.push(CodeObject { name, kind, bytes: Arc::from(&bytes[place]) });
    }
    r.finish()?;
    data.finish()?;

    let exe = Executable { functions, constants, kernels, packed, objects, target, metadata };
    verify(&exe)?;
    exe.objects.iter().try_for_each(|object| GpuUnit::of_object(object).map(drop))?;
    Ok(exe)
}

fn read_constant(
    r: &mut Reader<'_>,
    data: &mut Data<'_>,
    from: Constants<'_>,
) -> Result<Constant, RuntimeError> {
    Ok(match u8::get(r)? {
        constant::TENSOR => {
            let (dtype, shape): (_, Vec<i64>) = Codec::get(r)?;
            let place = data.next(u64::get(r)?)?;
            let (bytes, start) = (&data.bytes[place.clone()], place.start);
            let tensor = match from {
                Constants::Shared(storage) if storage.as_ptr().addr().is_multiple_of(ALIGNMENT) => {
                    let tensor = Tensor::from_storage(storage.clone(), start, &shape, dtype)?;
                    let (expected, got) = (tensor.byte_len(), place.len());
                    if expected != got {
                        return Err(RuntimeError::SizeMismatch { shape, dtype, expected, got });
                    }
                    if dtype.is_bool() {
                        tensor.as_slice::<bool>()?;
                    }
                    tensor
                }
                // The size was checked against the bytes present, so the allocation is no larger than the input.
                _ => Tensor::from_bytes(bytes, &shape, dtype)?,
            };
            Constant::Tensor(tensor)
        }
        constant::INT => Constant::Int(Codec::get(r)?),
        constant::FLOAT => Constant::Float(Codec::get(r)?),
        constant::SHAPE => Constant::Shape(Codec::get(r)?),
        constant::STR => Constant::Str(Codec::get(r)?),
        constant::DTYPE => Constant::DType(Codec::get(r)?),
        number => return Err(r.error(format!("{number} is no kind of constant")).into()),
    })
}

/// Cursor over a data section: pieces in order, each aligned, with zeros between them.
struct Data<'a> {
    bytes: &'a [u8],
    place: Range<usize>,
    at: usize,
    section: &'static str,
}

impl<'a> Data<'a> {
    fn new(bytes: &'a [u8], place: Range<usize>, section: &'static str) -> Data<'a> {
        Data { bytes, at: place.start, place, section }
    }

    fn error(&self, message: &str) -> ArtifactError {
        let at = self.at - self.place.start;
        ArtifactError::Malformed { section: self.section, at, message: message.to_string() }
    }

    /// Range of the next piece within the whole artifact. The section itself starts aligned.
    fn next(&mut self, len: u64) -> Result<Range<usize>, ArtifactError> {
        let start = self.at.next_multiple_of(ALIGNMENT);
        let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        let Some(end) = end.filter(|&end| end <= self.place.end) else {
            return Err(self.error("a piece that is longer than the section"));
        };
        if self.bytes[self.at..start].iter().any(|&byte| byte != 0) {
            return Err(self.error("a gap that is not zero"));
        }
        self.at = end;
        Ok(start..end)
    }

    fn finish(self) -> Result<(), ArtifactError> {
        if self.at == self.place.end { Ok(()) } else { Err(self.error("bytes that belong to nothing")) }
    }
}
