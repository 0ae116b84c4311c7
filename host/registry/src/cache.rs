//! The cache of pulled content, in files that are named by their digests. opgate reads a file only if its content has that digest, so
//! that users with write access to the directory cannot change the policies.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use opgate_platform::files;

use crate::{Digest, Reference};

/// Maximum number of files; the oldest are removed first. An artifact has two, one more for its signature and one more for its tag.
const MAX_FILES: usize = 128;
/// Maximum bytes of all files: eight of the largest components. The volume for the cache in a cluster has a limit, too.
const MAX_BYTES: u64 = 128 << 20;
/// Maximum bytes of a signature or a tag.
const MAX_SMALL_FILE_BYTES: usize = 256 << 10;

/// A directory with pulled content.
#[derive(Debug)]
pub struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// Opens a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn open(directory: &Path) -> io::Result<Self> {
        files::create_private_directory(directory)?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Returns the bytes with a digest.
    pub(crate) fn get(&self, digest: &Digest, max_bytes: usize) -> Option<Vec<u8>> {
        let bytes = self.read(&digest.to_dashed(), max_bytes)?;
        if Digest::of(&bytes) == *digest {
            return Some(bytes);
        }
        let path = self.directory.join(digest.to_dashed());
        tracing::warn!(path = %path.display(), "not used from the cache: the content has another digest");
        None
    }

    pub(crate) fn put(&self, digest: &Digest, bytes: &[u8]) {
        self.write(&digest.to_dashed(), bytes);
    }

    /// Returns the last valid signature. The caller verifies it again.
    pub(crate) fn signature(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.read(&format!("{}.sig", digest.to_dashed()), MAX_SMALL_FILE_BYTES)
    }

    pub(crate) fn put_signature(&self, digest: &Digest, signed: &[u8]) {
        self.write(&format!("{}.sig", digest.to_dashed()), signed);
    }

    /// Records the digest of a tag, and returns the previous one. It is for the log only: opgate never loads a policy by it.
    pub fn record_tag(&self, reference: &Reference, digest: &Digest) -> Option<Digest> {
        let name = format!("{}.tag", Digest::of(reference.to_string().as_bytes()).to_dashed());
        let noted =
            self.read(&name, MAX_SMALL_FILE_BYTES).and_then(|bytes| String::from_utf8(bytes).ok());
        let noted = noted.and_then(|text| Digest::parse(&text).ok());
        if noted.as_ref() != Some(digest) {
            self.write(&name, digest.as_str().as_bytes());
        }
        noted
    }

    fn read(&self, name: &str, max_bytes: usize) -> Option<Vec<u8>> {
        let path = self.directory.join(name);
        let read = || -> io::Result<Vec<u8>> {
            // opgate neither follows a link nor waits for a pipe.
            let file = files::open_without_link(&path)?;
            let mut bytes = Vec::new();
            let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
            file.take(limit).read_to_end(&mut bytes)?;
            if bytes.len() > max_bytes {
                return Err(io::Error::other("too large"));
            }
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "not used from the cache");
                None
            }
        }
    }

    /// A failure is only a warning: the registry has the content.
    fn write(&self, name: &str, bytes: &[u8]) {
        // Several policies may have the same component.
        static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
        let path = self.directory.join(name);
        let (process, number) = (std::process::id(), NEXT_NUMBER.fetch_add(1, Ordering::Relaxed));
        let temporary = self.directory.join(format!("{name}.{process}.{number}.tmp"));
        let written = || -> io::Result<()> {
            let _ = fs::remove_file(&temporary);
            let mut file = files::new_private_file().open(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        if let Err(error) = written() {
            let _ = fs::remove_file(&temporary);
            tracing::warn!(path = %path.display(), %error, "not kept in the cache");
        }
        self.remove_oldest(MAX_FILES, MAX_BYTES);
    }

    /// Removes the oldest files until the others are within the limits.
    fn remove_oldest(&self, files: usize, bytes: u64) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut all: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let known = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((known.modified().ok()?, known.len(), entry.path()))
            })
            .collect();
        all.sort();
        let (mut count, mut sum) = (all.len(), all.iter().map(|(_, size, _)| size).sum::<u64>());
        for (_, size, path) in all {
            if count <= files && sum <= bytes {
                return;
            }
            let _ = fs::remove_file(path);
            count -= 1;
            sum -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modified_cache_entries_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(&directory.path().join("oci")).unwrap();
        let digest = Digest::of(b"component");
        assert_eq!(cache.get(&digest, 100), None);
        cache.put(&digest, b"component");
        assert_eq!(cache.get(&digest, 100).as_deref(), Some(b"component".as_slice()));
        assert_eq!(cache.get(&digest, 8), None, "larger than asked for");
        let path = directory.path().join("oci").join(digest.to_dashed());
        fs::write(&path, b"something").unwrap();
        assert_eq!(cache.get(&digest, 100), None);
        fs::remove_file(&path).unwrap();
        let other = directory.path().join("other");
        fs::write(&other, b"component").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert_eq!(cache.get(&digest, 100), None, "a link");
        cache.put(&digest, b"component");
        assert_eq!(cache.get(&digest, 100).as_deref(), Some(b"component".as_slice()));
    }

    #[test]
    fn cache_size_is_limited() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        for number in 0..6 {
            cache.put(&Digest::of(&[number]), &[number; 10]);
        }
        cache.remove_oldest(4, u64::MAX);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
        cache.remove_oldest(4, 25);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn changed_digest_of_a_tag_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        let reference = Reference::parse("oci://localhost:5000/a:v1").unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        assert_eq!(cache.record_tag(&reference, &one), None);
        assert_eq!(cache.record_tag(&reference, &two), Some(one));
        assert_eq!(cache.record_tag(&reference, &two), Some(two));
    }
}
