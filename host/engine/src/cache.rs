//! Compiled policies on disk, so that a restart does not compile them again.
//!
//! wasmtime does not check native code when it loads it, so the cache trusts only files that it
//! wrote. The directory belongs to this user, and no other user may write to it. Every image is
//! sealed with a secret that only this user can read. The seal covers the origin of the image: the
//! digest of the component, and the version and settings of the compiler. A file that does not
//! match is compiled again and replaced. Images are read into memory before they are checked, so
//! that the checked bytes are the loaded ones.

use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use opgate_platform::files::{self, OthersAccess};
use opgate_system::{Image, Key};
use wasmtime::component::Component;

/// Maximum size of an image, 256 MiB: eight times the maximum size of a component.
const MAX_IMAGE_BYTES: u64 = 256 << 20;

/// A directory with sealed images.
pub struct Cache {
    directory: PathBuf,
    key: Key,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Cache {
    /// Opens the directory, and creates it with a new secret if it does not exist.
    ///
    /// # Errors
    /// If the directory is inaccessible, or other users can write to it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        files::create_private_directory(directory)?;
        files::ensure_owned(directory, &fs::metadata(directory)?, OthersAccess::Read)?;
        let path = directory.join("key");
        let secret = match read_secret(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_secret(&path)?,
            other => {
                other.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?
            }
        };
        Ok(Self { directory: directory.to_path_buf(), key: Key::new(&secret) })
    }

    /// The image of a component, if there is a valid one.
    pub(crate) fn read(&self, engine: &wasmtime::Engine, digest: &str) -> Option<Component> {
        let path = self.path(digest);
        let sealed = match read_bounded(&path) {
            Ok(sealed) => sealed,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "not used from the cache");
                }
                return None;
            }
        };
        let image = Image::open(&self.key, &image_purpose(engine, digest), sealed);
        let loaded = image
            .map_err(|e| e.to_string())
            .and_then(|image| image.load(engine).map_err(|e| format!("{e:#}")));
        match loaded {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(path = %path.display(), error, "not used from the cache");
                None
            }
        }
    }

    /// Stores an image. A failure is only a warning.
    pub(crate) fn write(&self, engine: &wasmtime::Engine, digest: &str, image: &Image) {
        let path = self.path(digest);
        let sealed = image.seal(&self.key, &image_purpose(engine, digest));
        if let Err(error) = write_new(&path, &sealed) {
            tracing::warn!(path = %path.display(), %error, "not kept in the cache");
        }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.directory.join(digest.replace(':', "-")).with_extension("image")
    }
}

/// The origin of an image: a component, and a version and settings of the compiler.
pub(super) fn image_purpose(engine: &wasmtime::Engine, digest: &str) -> Vec<u8> {
    let mut hasher = std::hash::DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("opgate {} {digest} {:016x}", env!("CARGO_PKG_VERSION"), hasher.finish()).into_bytes()
}

/// Opens a file of the cache for reading, without following a link.
fn open_owned(path: &Path, others: OthersAccess) -> io::Result<File> {
    let file = files::open_without_link(path)?;
    files::ensure_owned(path, &file.metadata()?, others)?;
    Ok(file)
}

fn read_secret(path: &Path) -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    open_owned(path, OthersAccess::None)?.read_exact(&mut secret)?;
    Ok(secret)
}

fn create_secret(path: &Path) -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    aws_lc_rs::rand::fill(&mut secret).map_err(|_| io::Error::other("no randomness"))?;
    // The file is complete before it gets its name. A link does not replace an existing file.
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let written =
        write_exclusive(&temporary, &secret).and_then(|()| fs::hard_link(&temporary, path));
    let _ = fs::remove_file(&temporary);
    match written {
        // Another process was faster. Its result is equivalent.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read_secret(path),
        other => other.map(|()| secret),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_owned(path, OthersAccess::Read)?.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file atomically, only readable for this user.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let written = write_exclusive(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_exclusive(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = files::new_private_file().open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
