//! A model in a file: its message in memory, the data of its large constants in the file until they are imported.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use prost::bytes::{Buf, Bytes};
use tvm_core::ir::IRModule;

use crate::error::OnnxError;
use crate::external::ExternalData;
use crate::importer::{import_with, read_model};
use crate::lean;
use crate::options::ImportOptions;
use crate::proto::ModelProto;

/// A decoded model, and where it comes from.
#[derive(Debug)]
pub struct ModelFile {
    proto: ModelProto,
    path: Option<PathBuf>,
    /// The file with the data that the message lacks.
    file: Option<Arc<Mutex<File>>>,
}

impl ModelFile {
    /// Reads the model in the file at `path`. The data of large constants is read when the model is imported, so the file
    /// must stay as it is until then.
    ///
    /// # Errors
    /// When the file cannot be read or is not a model.
    pub fn open(path: impl AsRef<Path>) -> Result<ModelFile, OnnxError> {
        let path = path.as_ref();
        let io = |source| OnnxError::Io { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(io)?;
        let lean = if file.metadata().map_err(io)?.is_file() { lean::read(&file).map_err(io)? } else { None };
        let path_buf = Some(path.to_path_buf());
        if let Some(proto) = lean.and_then(|bytes| read_model(Bytes::from(bytes)).ok()) {
            return Ok(ModelFile { proto, path: path_buf, file: Some(Arc::new(Mutex::new(file))) });
        }
        let bytes = std::fs::read(path).map_err(io)?;
        Ok(ModelFile { proto: read_model(Bytes::from(bytes))?, path: path_buf, file: None })
    }

    /// Decodes a serialised model. It has no directory, and so no external data.
    ///
    /// # Errors
    /// When the bytes are not a model.
    pub fn decode(bytes: impl Buf) -> Result<ModelFile, OnnxError> {
        Ok(ModelFile { proto: read_model(bytes)?, path: None, file: None })
    }

    /// The message of the model. Large initializers lack their data.
    pub fn proto(&self) -> &ModelProto {
        &self.proto
    }

    /// The path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Imports the model; external data is read from files beside it.
    ///
    /// # Errors
    /// As for [`import`](crate::import).
    pub fn import(&self, options: &ImportOptions) -> Result<IRModule, OnnxError> {
        let dir = self
            .path
            .as_deref()
            .map(|path| path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")));
        let external = dir.map_or_else(ExternalData::none, ExternalData::below);
        import_with(&self.proto, external.with_file(self.file.clone()), options)
    }
}
