//! The cache of compiled kernels on disk.
//!
//! An entry is a shared library, or code for a GPU, in a file that is named by a hash of everything it depends on, and sealed
//! with a hash of its name and content (both blake3). Its content runs as code of this user, so nobody else may be able to write
//! it. The directory belongs to the user and is open to nobody else. No directory above it is a link, lets a group or
//! everybody replace its entries, or belongs to anyone but the user and root. A reader first copies the content out of
//! the file, then checks the seal, and loads the checked copy, not the file. Writers write to a temporary name and
//! rename. Entries that were not used for a month are removed, and the oldest ones if the total size is too large.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use etcetera::BaseStrategy;

use crate::{CodegenError, report};

/// Maximum size of all entries together, in bytes.
const MAX_BYTES: u64 = 512 << 20;
/// Time after which an unused entry is removed.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Size of a seal in bytes.
const SEAL: usize = blake3::OUT_LEN;

/// What the names of entries end with, and those of files that are still being written.
const EXTENSIONS: [&str; 4] = ["so", "cubin", "ptx", "part"];

/// A directory with compiled kernels.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
    /// What the names of its entries end with.
    extension: &'static str,
}

/// The name of an entry: the hash of `parts`.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}

/// Location of the cache: `TVM_CACHE_DIR`, or `tvm-rs` in the cache directory of the platform: `$XDG_CACHE_HOME` or `~/.cache` on
/// Linux, `~/Library/Caches` on macOS. The flag is true if the user named it in `TVM_CACHE_DIR`. `None` if `TVM_CACHE` is `off`.
fn location() -> Option<(PathBuf, bool)> {
    if std::env::var_os("TVM_CACHE").is_some_and(|it| it == "off") {
        return None;
    }
    if let Some(dir) = std::env::var_os("TVM_CACHE_DIR").filter(|it| !it.is_empty()) {
        return Some((dir.into(), true));
    }
    let platform = etcetera::base_strategy::choose_native_strategy().ok()?;
    Some((platform.cache_dir().join("tvm-rs"), false))
}

impl Cache {
    /// Opens the user's cache of shared libraries; `None` if it is switched off, or there is no safe location for one.
    ///
    /// # Errors
    /// When `TVM_CACHE_DIR` names a directory that others can write to. (An unsafe default location is not an error; it
    /// is not used.)
    pub(crate) fn of_user() -> Result<Option<Cache>, CodegenError> {
        let Some((dir, named)) = location() else { return Ok(None) };
        match Cache::open(&dir) {
            Ok(cache) => Ok(Some(cache)),
            Err(err) if named => Err(err),
            Err(err) => {
                report::warn(format_args!("kernels are compiled anew in every run: {err}"));
                Ok(None)
            }
        }
    }

    /// Opens the cache in `dir`, and creates the directory if it is missing.
    ///
    /// # Errors
    /// When someone else can write to the directory or replace it.
    pub(crate) fn open(dir: &Path) -> Result<Cache, CodegenError> {
        let refuse = |path: &Path, reason: String| CodegenError::Cache { path: path.to_path_buf(), reason };
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |err: io::Error| CodegenError::Cache { path, reason: err.to_string() }
        };
        let dir = std::path::absolute(dir).map_err(io(dir))?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let above: Vec<&Path> = dir.ancestors().skip(1).collect();
        for path in above.iter().rev() {
            match fs::symlink_metadata(path) {
                Ok(metadata) => check_above(&metadata).map_err(|reason| refuse(path, reason))?,
                // The missing directories are created below, for this user alone.
                Err(err) if err.kind() == io::ErrorKind::NotFound => break,
                Err(err) => return Err(io(path)(err)),
            }
        }
        builder.create(&dir).map_err(io(&dir))?;
        let metadata = fs::symlink_metadata(&dir).map_err(io(&dir))?;
        check_own(&dir, &metadata).map_err(|reason| refuse(&dir, reason))?;
        Ok(Cache { dir, extension: "so" })
    }

    /// The cache of other entries in the same directory, whose names end with `extension`.
    #[must_use]
    pub(crate) fn of_kind(self, extension: &'static str) -> Cache {
        Cache { extension, ..self }
    }

    /// The directory of the cache.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.{}", self.extension))
    }

    /// The entry named `key`, if it is present and its seal is valid.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        if !fs::symlink_metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = fs::read(&path).ok()?;
        let at = bytes.len().checked_sub(SEAL)?;
        if seal(key, &bytes[..at]).as_bytes() != &bytes[at..] {
            return None;
        }
        bytes.truncate(at);
        // Record the time of use for `prune`. An entry whose time cannot be set is only recompiled earlier.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(bytes)
    }

    /// Stores `content` under `key`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn put(&self, key: &str, content: &[u8]) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let part = self.dir.join(format!("{key}.{}.{unique}.part", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&part).and_then(|mut file| {
            file.write_all(content)?;
            file.write_all(seal(key, content).as_bytes())
        });
        let res = written.and_then(|()| fs::rename(&part, self.path(key)));
        if res.is_err() {
            let _ = fs::remove_file(&part);
        }
        self.prune(MAX_BYTES, MAX_AGE, &self.path(key));
        res
    }

    /// Removes entries older than `max_age`, then the oldest ones until at most `max_bytes` are left; never removes `keep`.
    fn prune(&self, max_bytes: u64, max_age: Duration, keep: &Path) {
        let now = SystemTime::now();
        let Ok(files) = fs::read_dir(&self.dir) else { return };
        let mut entries = Vec::new();
        for file in files.flatten() {
            let path = file.path();
            let ours = path.extension().is_some_and(|it| EXTENSIONS.iter().any(|known| it == *known));
            let Ok(metadata) = file.metadata() else { continue };
            if !ours || !metadata.is_file() {
                continue;
            }
            let age = metadata.modified().ok().and_then(|it| now.duration_since(it).ok()).unwrap_or_default();
            entries.push((age, metadata.len(), path));
        }
        entries.sort();
        let mut total = 0u64;
        for (age, len, path) in entries {
            total = total.saturating_add(len);
            // A file that is still being written is younger than this.
            let abandoned =
                path.extension().is_some_and(|it| it == "part") && age > Duration::from_secs(3600);
            if path != keep && (age > max_age || total > max_bytes || abandoned) {
                // Another process may have removed it in the meantime.
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// A hash of an entry's name and content.
fn seal(key: &str, content: &[u8]) -> blake3::Hash {
    let key = blake3::derive_key("tvm kernel cache, seal of an entry", key.as_bytes());
    blake3::keyed_hash(&key, content)
}

/// The reason why a directory above the cache is not safe.
#[cfg(unix)]
fn check_above(metadata: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    if metadata.is_symlink() {
        return Err("it is a link".into());
    }
    if let Some(who) = writers(metadata.mode(), metadata.uid(), metadata.gid()) {
        return Err(format!("{who} can write to it"));
    }
    let trusted = metadata.uid() == 0 || user().is_none_or(|user| user == metadata.uid());
    if trusted { Ok(()) } else { Err(format!("it belongs to user {}", metadata.uid())) }
}

/// Who besides the owner may replace entries of a directory, given its mode, owner and group. In a sticky directory
/// nobody may. A group whose number is that of the owner is the owner's own.
#[cfg(unix)]
fn writers(mode: u32, owner: u32, group: u32) -> Option<&'static str> {
    const STICKY: u32 = 0o1000;
    if mode & STICKY != 0 {
        return None;
    }
    if mode & 0o002 != 0 {
        return Some("everybody");
    }
    (mode & 0o020 != 0 && owner != group).then_some("its group")
}

/// The reason why the directory of the cache itself is not safe. If others can only read it, closes it to them.
#[cfg(unix)]
fn check_own(dir: &Path, metadata: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    if metadata.is_symlink() {
        return Err("it is a link".into());
    }
    if user().is_some_and(|user| user != metadata.uid()) {
        return Err(format!("it belongs to user {}", metadata.uid()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others can write to it".into());
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(|err| err.to_string())?;
    }
    Ok(())
}

/// The user of this process, if the operating system reports it.
#[cfg(unix)]
fn user() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").ok().map(|it| it.uid())
}

#[cfg(not(unix))]
fn check_above(metadata: &Metadata) -> Result<(), String> {
    if metadata.is_symlink() { Err("it is a link".into()) } else { Ok(()) }
}

#[cfg(not(unix))]
fn check_own(_dir: &Path, metadata: &Metadata) -> Result<(), String> {
    check_above(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    fn chmod(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn directories_that_others_can_write_to_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let refused = |dir: &Path, reason: &str| match Cache::open(dir) {
            Err(CodegenError::Cache { reason: got, .. }) => assert_eq!(got, reason),
            other => panic!("{}: {other:?}", dir.display()),
        };
        // A missing directory is created, and for nobody else.
        let cache = Cache::open(&at("a/b")).unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!(fs::metadata(cache.dir()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(at("a")).unwrap().mode() & 0o777, 0o700);
        // If others can only read the directory, it is closed to them.
        chmod(&at("a/b"), 0o755);
        Cache::open(&at("a/b")).unwrap();
        assert_eq!(fs::metadata(at("a/b")).unwrap().mode() & 0o777, 0o700);
        for mode in [0o777, 0o770, 0o702, 0o1777] {
            chmod(&at("a/b"), mode);
            refused(&at("a/b"), "others can write to it");
        }
        chmod(&at("a/b"), 0o700);
        chmod(&at("a"), 0o777);
        refused(&at("a/b"), "everybody can write to it");
        refused(&at("a/new"), "everybody can write to it");
        chmod(&at("a"), 0o700);
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        refused(&at("link/b"), "it is a link");
        refused(&at("link/new"), "it is a link");
        std::os::unix::fs::symlink(at("a/b"), at("a/link")).unwrap();
        refused(&at("a/link"), "it is a link");
        fs::write(at("file"), "").unwrap();
        assert!(matches!(Cache::open(&at("file")), Err(CodegenError::Cache { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn groups_that_can_write_are_not_trusted() {
        for (mode, owner, group, who) in [
            (0o755, 7, 100, None),
            (0o775, 7, 100, Some("its group")),
            (0o775, 0, 50, Some("its group")),
            // The private group of a user.
            (0o775, 7, 7, None),
            (0o777, 7, 7, Some("everybody")),
            (0o1777, 0, 0, None),
            (0o1775, 0, 50, None),
        ] {
            assert_eq!(writers(mode, owner, group), who, "{mode:o} {owner}:{group}");
        }
        let root = tempfile::tempdir().unwrap();
        let above = root.path().join("above");
        Cache::open(&above.join("cache")).unwrap();
        // Only root may give a directory to an arbitrary group.
        if std::os::unix::fs::chown(&above, None, Some(12_345)).is_ok() {
            chmod(&above, 0o770);
            let err = Cache::open(&above.join("cache")).unwrap_err().to_string();
            assert!(err.contains("above: its group can write to it\n  help: "), "{err}");
        }
    }

    #[test]
    fn an_entry_is_what_was_put_under_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache")).unwrap();
        let [a, b] = [key(&[b"a"]), key(&[b"b"])];
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_eq!(cache.get(&a), None);
        cache.put(&a, b"library").unwrap();
        assert_eq!(cache.get(&a).as_deref(), Some(&b"library"[..]));
        // A truncated, changed or extended entry, or another entry under this name.
        let whole = fs::read(cache.path(&a)).unwrap();
        cache.put(&b, b"another").unwrap();
        let mut changed = whole.clone();
        changed[3] ^= 1;
        let mut longer = whole.clone();
        longer.push(0);
        for broken in [&whole[..10], b"", &whole[1..], &changed, &longer, &fs::read(cache.path(&b)).unwrap()]
        {
            fs::write(cache.path(&a), broken).unwrap();
            assert_eq!(cache.get(&a), None);
        }
        #[cfg(unix)]
        {
            fs::remove_file(cache.path(&a)).unwrap();
            let elsewhere = dir.path().join("elsewhere");
            fs::write(&elsewhere, &whole).unwrap();
            std::os::unix::fs::symlink(&elsewhere, cache.path(&a)).unwrap();
            assert_eq!(cache.get(&a), None, "a link is no entry");
        }
    }

    #[test]
    fn old_entries_go() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache")).unwrap();
        let keys: Vec<String> = (0..6u8).map(|i| key(&[&[i]])).collect();
        for (i, key) in keys.iter().enumerate() {
            cache.put(key, &[0; 100]).unwrap();
            let age = Duration::from_secs(3600 * (i as u64 + 1));
            let file = OpenOptions::new().write(true).open(cache.path(key)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        fs::write(cache.dir().join("README"), "not ours").unwrap();
        let there = || keys.iter().map(|key| cache.path(key).exists()).collect::<Vec<_>>();
        cache.prune(u64::MAX, Duration::from_secs(3600 * 5 + 60), Path::new(""));
        assert_eq!(there(), [true, true, true, true, true, false]);
        cache.prune(3 * (100 + SEAL as u64), MAX_AGE, &cache.path(&keys[4]));
        assert_eq!(there(), [true, true, true, false, true, false], "the oldest go, but not what is kept");
        // Using an entry makes it young.
        cache.get(&keys[2]).unwrap();
        cache.prune(100 + SEAL as u64, MAX_AGE, Path::new(""));
        assert_eq!(there(), [false, false, true, false, false, false]);
        assert!(cache.dir().join("README").exists());
    }
}
