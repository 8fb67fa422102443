//! Imported modules: what an external code generator made of a part of a model, as packed functions. An artifact carries them as
//! objects of their kind, and loaders of the application make modules of these again.
//!
//! TVM counterpart: `ffi::ModuleObj` with its imports, and the global functions `ffi.Module.load_from_bytes.KIND`, for which
//! [`VmConfig::loaders`] stands here: nothing is global.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::artifact::ArtifactError;
use crate::error::RuntimeError;
use crate::packed::PackedFunc;
use crate::vm::{CodeObject, ObjectKind};
#[cfg(any(doc, test))]
use crate::vm::{Vm, VmConfig};

/// A module of functions that an external code generator made. A program calls them by name, with `call_packed` and
/// `call_dps_packed`.
///
/// ```
/// use std::sync::Arc;
/// use tvm_runtime::{ModuleLoader, PackedFunc, RuntimeError, RuntimeModule};
///
/// /// A function `scale`, which multiplies by a constant.
/// struct Scale(f64);
///
/// impl RuntimeModule for Scale {
///     fn kind(&self) -> &str {
///         "scale"
///     }
///
///     fn function(&self, name: &str) -> Option<PackedFunc> {
///         let factor = self.0;
///         (name == "scale").then(|| PackedFunc::typed(move |x: f64| Ok(x * factor)))
///     }
///
///     fn save(&self) -> Result<Vec<u8>, RuntimeError> {
///         Ok(self.0.to_le_bytes().to_vec())
///     }
/// }
///
/// let loader = ModuleLoader::new(|bytes: Arc<[u8]>| match (*bytes).try_into() {
///     Ok(bytes) => Ok(Scale(f64::from_le_bytes(bytes))),
///     Err(_) => Err(RuntimeError::other("a factor has eight bytes")),
/// });
/// ```
pub trait RuntimeModule: Send + Sync {
    /// Name of the format in which [`save`](Self::save) writes the module, and so of its loader.
    fn kind(&self) -> &str;

    /// The function `name`, if the module has it.
    fn function(&self, name: &str) -> Option<PackedFunc>;

    /// The bytes of which a loader makes the module again. By default an error: the module exists in this process only.
    fn save(&self) -> Result<Vec<u8>, RuntimeError> {
        let what = format!("a module of kind `{}`, which exists in this process only", self.kind());
        Err(ArtifactError::Unsavable(what).into())
    }
}

impl fmt::Debug for dyn RuntimeModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuntimeModule({})", self.kind())
    }
}

type Load = dyn Fn(Arc<[u8]>) -> Result<Arc<dyn RuntimeModule>, RuntimeError> + Send + Sync;

/// Makes modules of one kind from the bytes in artifacts.
#[derive(Clone)]
pub struct ModuleLoader(Arc<Load>);

impl ModuleLoader {
    /// Makes a loader of data. Artifacts are untrusted: `load` makes an error of bytes that are no module of its kind, and the
    /// functions of the modules are safe whatever the bytes.
    pub fn new<M: RuntimeModule + 'static>(
        load: impl Fn(Arc<[u8]>) -> Result<M, RuntimeError> + Send + Sync + 'static,
    ) -> ModuleLoader {
        ModuleLoader(Arc::new(move |bytes| Ok(Arc::new(load(bytes)?))))
    }

    /// Makes a loader of code, which `load` or the functions of the modules run.
    ///
    /// # Safety
    /// Every artifact that is loaded with this loader keeps the promises that `load` requires of its bytes. Usually that means
    /// that whoever made the artifact is trusted like the author of a program.
    pub unsafe fn of_code<M: RuntimeModule + 'static>(
        load: unsafe fn(Arc<[u8]>) -> Result<M, RuntimeError>,
    ) -> ModuleLoader {
        // SAFETY: promised by the caller.
        ModuleLoader::new(move |bytes| unsafe { load(bytes) })
    }
}

impl fmt::Debug for ModuleLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModuleLoader")
    }
}

impl CodeObject {
    /// The saved form of an imported module.
    ///
    /// # Errors
    /// When the module cannot be saved.
    pub fn of_import(
        name: impl Into<String>,
        module: &dyn RuntimeModule,
    ) -> Result<CodeObject, RuntimeError> {
        let kind = ObjectKind::Import(module.kind().into());
        Ok(CodeObject { name: name.into(), kind, bytes: module.save()?.into() })
    }
}

/// Loads the imported modules among `objects`.
pub(crate) fn load_imports(
    objects: &[CodeObject],
    loaders: &BTreeMap<String, ModuleLoader>,
) -> Result<Vec<Arc<dyn RuntimeModule>>, RuntimeError> {
    let imports = objects.iter().filter_map(|object| match &object.kind {
        ObjectKind::Import(kind) => Some((object, kind)),
        ObjectKind::SharedLibrary | ObjectKind::LevelLibrary(_) | ObjectKind::GpuKernels { .. } => None,
    });
    let load = |(object, kind): (&CodeObject, &String)| {
        let (name, kind) = (object.name.clone(), kind.clone());
        let Some(ModuleLoader(load)) = loaders.get(&kind) else {
            return Err(RuntimeError::NoLoader { name, kind });
        };
        load(object.bytes.clone()).map_err(|err| RuntimeError::Import { name, kind, source: Box::new(err) })
    };
    imports.map(load).collect()
}

#[cfg(test)]
mod tests;
