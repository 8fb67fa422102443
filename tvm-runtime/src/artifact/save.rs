//! Saving of artifacts.

use std::io::Write;
use std::path::Path;

use super::ArtifactError;
use super::codec::{Codec, Writer};
use super::container::{Pieces, write};
use crate::error::RuntimeError;
use crate::vm::{Constant, Executable, verify};

/// Numbers of the kinds of constants in the format.
pub(super) mod constant {
    pub(in super::super) const TENSOR: u8 = 0;
    pub(in super::super) const INT: u8 = 1;
    pub(in super::super) const FLOAT: u8 = 2;
    pub(in super::super) const SHAPE: u8 = 3;
    pub(in super::super) const STR: u8 = 4;
    pub(in super::super) const DTYPE: u8 = 5;
}

impl Executable {
    /// Serialises the executable. Saving the same executable twice gives the same bytes.
    pub fn save(&self) -> Result<Vec<u8>, RuntimeError> {
        let mut bytes = Vec::new();
        self.save_to(&mut bytes).map(|()| bytes)
    }

    /// Serialises the executable into `out`, without a copy of the constants in between.
    ///
    /// # Errors
    /// When the executable is malformed, or `out` cannot be written.
    pub fn save_to(&self, out: &mut impl Write) -> Result<(), RuntimeError> {
        if cfg!(target_endian = "big") {
            return Err(ArtifactError::Unsavable("constants on a big-endian machine".into()).into());
        }
        verify(self)?;
        let mut target = Writer::default();
        self.target.put(&mut target);
        self.metadata.put(&mut target);

        let (mut globals, mut code) = (Writer::default(), Writer::default());
        (self.functions.len() as u64).put(&mut globals);
        for func in &self.functions {
            func.name.put(&mut globals);
            func.params.put(&mut globals);
            func.ret.put(&mut globals);
            func.num_regs.put(&mut globals);
            func.public.put(&mut globals);
            func.code.put(&mut code);
        }

        let (mut constants, mut data) = (Writer::default(), Pieces::default());
        (self.constants.len() as u64).put(&mut constants);
        for constant in &self.constants {
            put_constant(constant, &mut constants, &mut data)?;
        }

        let (mut kernels, mut packed) = (Writer::default(), Writer::default());
        self.kernels.put(&mut kernels);
        self.packed.put(&mut packed);

        let (mut objects, mut object_data) = (Writer::default(), Pieces::default());
        (self.objects.len() as u64).put(&mut objects);
        for object in &self.objects {
            object.name.put(&mut objects);
            object.kind.put(&mut objects);
            append(&object.bytes, &mut objects, &mut object_data);
        }

        let mut sections = Vec::new();
        for mut writer in [target, globals, constants, kernels, packed, code, objects] {
            if let Some(message) = writer.error.take() {
                return Err(ArtifactError::Unsavable(message).into());
            }
            sections.push(writer.bytes);
        }
        let mut sections = sections.iter().map(|it| Pieces::one(it));
        let mut next = || sections.next().unwrap_or_default();
        let all = [next(), next(), next(), data, next(), next(), next(), next(), object_data];
        let io =
            |err: std::io::Error| RuntimeError::Io { path: "the artifact".into(), message: err.to_string() };
        write(&all, out).map_err(io)
    }

    /// Serialises the executable into the file `path`.
    pub fn save_file(&self, path: impl AsRef<Path>) -> Result<(), RuntimeError> {
        let path = path.as_ref();
        let io = |err: std::io::Error| RuntimeError::Io {
            path: path.display().to_string(),
            message: err.to_string(),
        };
        let mut out = std::io::BufWriter::new(std::fs::File::create(path).map_err(io)?);
        self.save_to(&mut out)?;
        out.flush().map_err(io)
    }
}

fn put_constant<'a>(
    constant: &'a Constant,
    w: &mut Writer,
    data: &mut Pieces<'a>,
) -> Result<(), RuntimeError> {
    match constant {
        Constant::Tensor(tensor) => {
            constant::TENSOR.put(w);
            tensor.dtype().put(w);
            tensor.shape().to_vec().put(w);
            append(tensor.bytes()?, w, data);
        }
        Constant::Int(it) => (constant::INT, *it).put(w),
        Constant::Float(it) => (constant::FLOAT, *it).put(w),
        Constant::Shape(it) => {
            constant::SHAPE.put(w);
            it.put(w);
        }
        Constant::Str(it) => {
            constant::STR.put(w);
            it.put(w);
        }
        Constant::DType(it) => (constant::DTYPE, *it).put(w),
    }
    Ok(())
}

/// Appends `bytes` to `data` at the next aligned place, and writes the length.
fn append<'a>(bytes: &'a [u8], w: &mut Writer, data: &mut Pieces<'a>) {
    data.align();
    data.push(bytes);
    (bytes.len() as u64).put(w);
}
