//! Shared libraries of kernels.
//!
//! TVM counterpart: `runtime::LibraryModule`. A library exports [`ABI_SYMBOL`] and one symbol per kernel
//! ([`kernel_symbol`]); no other symbol is looked up.
#![allow(unsafe_code, reason = "loads and calls foreign code; each block says why it is sound")]

use std::any::Any;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::{Module, resolve};
use crate::abi::{ABI_VERSION, KernelFn, kernel_symbol};
use crate::error::RuntimeError;
use crate::kernel::{Kernel, KernelSig};

/// Symbol of a `u32` constant: the [`ABI_VERSION`] that a library was compiled for.
pub const ABI_SYMBOL: &str = "tvm_abi_version";

/// A loaded shared library; it stays loaded while this handle or one of its kernels lives.
#[derive(Clone)]
pub struct Library(Arc<Inner>);

struct Inner {
    name: String,
    library: libloading::Library,
    /// The memory file that the library was loaded from. It stays open as long as the library is loaded: its path contains
    /// the number of the descriptor, and the loader takes two libraries with the same path for one. Dropped after `library`.
    _file: Option<File>,
}

impl Library {
    /// Loads the library at `path`.
    ///
    /// # Safety
    /// Loading runs the library's initialisers, and its kernels must keep the promises of [`Kernel::native`].
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Library, RuntimeError> {
        let path = path.as_ref();
        // SAFETY: promised by the caller.
        unsafe { Library::load(path.display().to_string(), path, None) }
    }

    /// Loads a library from memory.
    ///
    /// # Safety
    /// See [`Library::open`].
    pub unsafe fn from_bytes(name: &str, bytes: &[u8]) -> Result<Library, RuntimeError> {
        let err = |err: std::io::Error| RuntimeError::Library { name: name.into(), message: err.to_string() };
        #[cfg(target_os = "linux")]
        if let Some(file) = memory_file(bytes).filter(|_| Path::new("/proc/self/fd").exists()) {
            use std::os::fd::AsRawFd;
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            // SAFETY: promised by the caller.
            return unsafe { Library::load(name.to_string(), Path::new(&path), Some(file)) };
        }
        let dir = PrivateDir::new().map_err(err)?;
        let path = dir.0.join("kernels.so");
        let mut file = File::create_new(&path).map_err(err)?;
        file.write_all(bytes).map_err(err)?;
        drop(file);
        // SAFETY: promised by the caller.
        unsafe { Library::load(name.to_string(), &path, None) }
    }

    unsafe fn load(name: String, path: &Path, file: Option<File>) -> Result<Library, RuntimeError> {
        // SAFETY: promised by the caller of `open` or `from_bytes`.
        let library = unsafe { libloading::Library::new(path) };
        let library = match library {
            Ok(library) => library,
            Err(err) => return Err(RuntimeError::Library { name, message: describe(&err) }),
        };
        // SAFETY: the symbol is a `u32` by its contract.
        let version =
            unsafe { library.get::<*const u32>(ABI_SYMBOL.as_bytes()).map(|symbol| symbol.read_unaligned()) };
        match version {
            Ok(ABI_VERSION) => Ok(Library(Arc::new(Inner { name, library, _file: file }))),
            Ok(got) => Err(RuntimeError::AbiVersion { name, expected: ABI_VERSION, got }),
            Err(_) => {
                Err(RuntimeError::Library { name, message: format!("it has no symbol `{ABI_SYMBOL}`") })
            }
        }
    }

    /// Name or path of the library.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The kernel with this signature, if the library exports its symbol.
    pub fn kernel(&self, sig: KernelSig) -> Option<Kernel> {
        let symbol = kernel_symbol(&sig.name);
        // SAFETY: the symbol is a kernel by the promise made when the library was loaded.
        let func: KernelFn = unsafe { *self.0.library.get::<KernelFn>(symbol.as_bytes()).ok()? };
        let keep: Arc<dyn Any + Send + Sync> = self.0.clone();
        // SAFETY: as above, and `keep` holds the library.
        Some(unsafe { Kernel::native(sig, func, keep) })
    }

    /// Makes a module with one kernel per signature.
    pub fn module(&self, sigs: &[KernelSig]) -> Result<Module, RuntimeError> {
        resolve(sigs, |sig| self.kernel(sig.clone()))
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Library({})", self.0.name)
    }
}

/// The loader's own message, if libloading has one.
fn describe(err: &libloading::Error) -> String {
    match std::error::Error::source(err) {
        Some(source) => source.to_string(),
        None => err.to_string(),
    }
}

/// An anonymous memory file that holds `bytes`, if the system supports such files.
#[cfg(target_os = "linux")]
fn memory_file(bytes: &[u8]) -> Option<File> {
    use std::ffi::{c_char, c_int, c_uint};
    use std::os::fd::FromRawFd;

    unsafe extern "C" {
        fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    }
    const CLOSE_ON_EXEC: c_uint = 1;
    // SAFETY: the name is a C string; the call has no other requirement.
    let fd = unsafe { memfd_create(c"tvm-kernels".as_ptr(), CLOSE_ON_EXEC) };
    if fd < 0 {
        return None;
    }
    // SAFETY: a new descriptor that nothing else owns.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(bytes).ok().map(|()| file)
}

/// A directory that only this user can enter; dropping it removes it with its contents.
struct PrivateDir(std::path::PathBuf);

impl PrivateDir {
    fn new() -> std::io::Result<PrivateDir> {
        use std::hash::{BuildHasher, RandomState};
        let name = format!("tvm-{}-{:016x}", std::process::id(), RandomState::new().hash_one(0));
        let path = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // This fails if the directory exists, whoever created it.
        builder.create(&path)?;
        Ok(PrivateDir(path))
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // If a loaded library cannot be removed, it stays in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
