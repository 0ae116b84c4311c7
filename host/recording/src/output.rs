//! Where a recording goes: files of a directory, compressed and limited in total, or stdout.
//!
//! ```text
//! line ─▶ current file ─ full, or an hour old ─▶ end it, delete the oldest ─▶ next file, with the header
//! ```

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use opgate_platform::files;
use time::OffsetDateTime;

/// Maximum bytes of a file, compressed; less if the directory is limited to less than some files.
const MAX_FILE_BYTES: u64 = 64 << 20;
const MIN_FILES: u64 = 8;

/// Maximum bytes on standard output after a header. Programs that collect it begin new files, too.
const MAX_BYTES_WITHOUT_HEADER: usize = 4 << 20;

/// Maximum age of the current file.
const MAX_FILE_AGE: Duration = Duration::from_secs(3_600);

/// A low level: half of the time of the default one.
const COMPRESSION_LEVEL: i32 = 1;

const PREFIX: &str = "recording-";
const SUFFIX: &str = ".jsonl.zst";

/// Maximum number of files. Each is small if the server restarts often.
const MAX_FILES: usize = 4_096;

/// The time after a failed write without another attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of attempts to find a new name.
const MAX_ATTEMPTS: u32 = 1_000;

/// Where a recording goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Files of this directory, which have at most this many bytes together. The oldest are deleted.
    Directory(PathBuf, u64),
    /// Standard output, not compressed.
    Stdout,
}

/// An open destination.
pub(crate) struct Output {
    destination: Destination,
    current: Option<CurrentFile>,
    /// The next attempt after a failed one.
    paused_until: Option<Instant>,
    stream: Stream,
}

/// The state of standard output.
#[derive(Debug, Default)]
struct Stream {
    /// Whether a write failed: the last line can be incomplete, and a new header lost.
    is_cut: bool,
    /// Bytes since the last header.
    bytes: usize,
}

struct CurrentFile {
    encoder: zstd::Encoder<'static, CountingFile>,
    path: PathBuf,
    started: Instant,
}

struct CountingFile {
    file: File,
    written: u64,
}

impl Write for CountingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written = self.written.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Output {
    /// Creates the directory, for this user only, and checks that a file can be written.
    ///
    /// # Errors
    /// If that is not possible.
    pub(crate) fn open(destination: Destination) -> io::Result<Self> {
        if let Destination::Directory(directory, _) = &destination {
            files::create_private_directory(directory)?;
        }
        if let Destination::Directory(directory, _) = &destination {
            let (_, path) = create_file(directory)?;
            fs::remove_file(path)?;
        }
        Ok(Self { destination, current: None, paused_until: None, stream: Stream::default() })
    }

    /// Writes a line of a review, after the header if it is the first one of a file.
    ///
    /// # Errors
    /// If it cannot be written. The next line begins a new file.
    pub(crate) fn write(
        &mut self,
        header: &[u8],
        is_new_header: bool,
        line: &[u8],
    ) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| Instant::now() < until) {
            return Err(io::Error::other("the last attempt failed less than a minute ago"));
        }
        let written = self.write_lines(header, is_new_header, line);
        if written.is_err() {
            self.end_failed();
        }
        written
    }

    /// Ends a file that could not be written, and removes it if it is empty.
    fn end_failed(&mut self) {
        self.paused_until = Some(Instant::now() + RETRY_INTERVAL);
        self.stream.is_cut = true;
        if let Some(current) = self.current.take()
            && current.encoder.get_ref().written == 0
        {
            // Another server can have deleted it.
            let _ = fs::remove_file(&current.path);
        }
    }

    fn write_lines(&mut self, header: &[u8], is_new_header: bool, line: &[u8]) -> io::Result<()> {
        if self.destination == Destination::Stdout {
            return self.stream.write(&mut io::stdout().lock(), header, is_new_header, line);
        }
        if self.is_full() {
            self.finish()?;
        }
        let has_begun = self.ensure_file(header)?;
        let Some(current) = &mut self.current else { return Ok(()) };
        if is_new_header && !has_begun {
            current.encoder.write_all(header)?;
        }
        current.encoder.write_all(line)
    }

    /// Writes what is buffered, so that a reader of the file sees it.
    ///
    /// # Errors
    /// If it cannot be written. The next line begins a new file.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let flushed = match (&self.destination, &mut self.current) {
            (Destination::Stdout, _) => io::stdout().lock().flush(),
            (_, Some(current)) => current.encoder.flush(),
            (_, None) => Ok(()),
        };
        if flushed.is_err() {
            self.end_failed();
        }
        flushed
    }

    /// Ends the current file.
    ///
    /// # Errors
    /// If its rest cannot be written.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self.current.take() {
            Some(current) => current.encoder.finish()?.file.sync_data(),
            None => io::stdout().lock().flush(),
        }
    }

    fn max_file_bytes(&self) -> u64 {
        match &self.destination {
            Destination::Directory(_, most) => MAX_FILE_BYTES.min(most / MIN_FILES),
            Destination::Stdout => MAX_FILE_BYTES,
        }
    }

    fn is_full(&self) -> bool {
        let most = self.max_file_bytes();
        self.current.as_ref().is_some_and(|current| {
            current.encoder.get_ref().written >= most || current.started.elapsed() >= MAX_FILE_AGE
        })
    }

    /// Begins a file with this header, if there is none. Returns whether it did.
    fn ensure_file(&mut self, header: &[u8]) -> io::Result<bool> {
        let Destination::Directory(directory, most) = &self.destination else { return Ok(false) };
        if self.current.is_some() {
            return Ok(false);
        }
        prune(directory, most.saturating_sub(self.max_file_bytes()))?;
        let (file, path) = create_file(directory)?;
        let file = CountingFile { file, written: 0 };
        let mut encoder = zstd::Encoder::new(file, COMPRESSION_LEVEL)?;
        encoder.include_checksum(true)?;
        let current = self.current.insert(CurrentFile { encoder, path, started: Instant::now() });
        current.encoder.write_all(header)?;
        Ok(true)
    }
}

impl Stream {
    /// Writes a line, after its header if that is new or was long ago.
    fn write(
        &mut self,
        out: &mut impl Write,
        header: &[u8],
        is_new_header: bool,
        line: &[u8],
    ) -> io::Result<()> {
        if self.is_cut {
            out.write_all(b"\n")?;
        }
        if is_new_header || self.is_cut || self.bytes >= MAX_BYTES_WITHOUT_HEADER {
            out.write_all(header)?;
            self.bytes = 0;
        }
        out.write_all(line)?;
        self.bytes = self.bytes.saturating_add(line.len());
        self.is_cut = false;
        Ok(())
    }
}

/// A file that only this user can read, with a lock by which other servers see that it is in use.
fn create_file(directory: &Path) -> io::Result<(File, PathBuf)> {
    let options = files::new_private_file();
    for _ in 0..MAX_ATTEMPTS {
        let path = directory.join(file_name(OffsetDateTime::now_utc()));
        match options.open(&path) {
            // Another server began a file in this microsecond.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => {
                let file = opened?;
                // Some network file systems have no locks.
                let _ = file.try_lock();
                return Ok((file, path));
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Whether a server writes a file.
fn is_in_use(path: &Path) -> bool {
    let file = File::open(path);
    file.is_ok_and(|file| file.try_lock().is_err())
}

/// Names are in the order of time, so that the first ones are the oldest.
fn file_name(time: OffsetDateTime) -> String {
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second, microsecond) = time.to_hms_micro();
    let month = u8::from(month);
    format!(
        "{PREFIX}{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{microsecond:06}Z{SUFFIX}"
    )
}

/// Deletes the oldest recordings until the others have at most this many bytes. Files in use stay.
fn prune(directory: &Path, most: u64) -> io::Result<()> {
    let mut files: Vec<(OsString, u64)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_own = name.to_str().is_some_and(|n| n.starts_with(PREFIX) && n.ends_with(SUFFIX));
        // Another server can have deleted it.
        let metadata = entry.metadata().ok().filter(|metadata| metadata.is_file() && is_own);
        files.extend(metadata.map(|metadata| (name, metadata.len())));
    }
    files.sort();
    let mut count = files.len();
    let mut total =
        files.iter().map(|(_, bytes)| bytes).fold(0_u64, |sum, n| sum.saturating_add(*n));
    for (name, bytes) in files {
        if total <= most && count < MAX_FILES {
            break;
        }
        let path = directory.join(name);
        if is_in_use(&path) {
            continue;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {
                total = total.saturating_sub(bytes);
                count = count.saturating_sub(1);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The texts of all files, oldest first.
    fn texts(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let text = |path: &PathBuf| {
            let found = crate::decompress(&fs::read(path).unwrap(), 1 << 30).unwrap();
            String::from_utf8(found.bytes).unwrap()
        };
        names.iter().filter(|path| path.to_string_lossy().ends_with(SUFFIX)).map(text).collect()
    }

    /// A line that does not compress to nothing.
    fn line(seed: u64) -> Vec<u8> {
        let mut text = String::new();
        let mut state = seed.wrapping_add(1);
        while text.len() < 16_384 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            text.push_str(&state.to_string());
        }
        format!("{text}\n").into_bytes()
    }

    #[test]
    fn each_file_begins_with_a_header_and_the_oldest_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("of-an-administrator.txt"), vec![0; 1 << 20]).unwrap();
        let most = 256 << 10;
        let destination = Destination::Directory(directory.path().to_owned(), most);
        let mut output = Output::open(destination).unwrap();
        for seed in 0..200 {
            output.write(b"header\n", seed == 0, &line(seed)).unwrap();
            output.flush().unwrap();
        }
        output.finish().unwrap();
        let found = texts(directory.path());
        assert!(found.len() > 2, "{}", found.len());
        assert!(found.iter().all(|text| text.starts_with("header\n") && text.ends_with('\n')));
        let last = String::from_utf8(line(199)).unwrap();
        assert!(found.last().unwrap().ends_with(&last), "the latest are kept");
        let bytes = |entry: io::Result<fs::DirEntry>| entry.unwrap().metadata().unwrap().len();
        let total: u64 = fs::read_dir(directory.path()).unwrap().map(bytes).sum();
        assert!(total - (1 << 20) <= most + (32 << 10), "{total}");
    }

    #[test]
    fn stream_repeats_its_header() {
        let (mut stream, mut out) = (Stream::default(), Vec::new());
        stream.write(&mut out, b"one\n", true, b"1\n").unwrap();
        stream.write(&mut out, b"one\n", false, b"2\n").unwrap();
        // The disk was full within the third line, and then for the second header.
        out.extend_from_slice(b"{\"ha");
        stream.is_cut = true;
        stream.write(&mut out, b"two\n", false, b"4\n").unwrap();
        stream.write(&mut out, b"two\n", false, b"5\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one\n1\n2\n{\"ha\ntwo\n4\n5\n");
        let mut out = Vec::new();
        let long = vec![b'x'; MAX_BYTES_WITHOUT_HEADER];
        stream.write(&mut out, b"two\n", false, &long).unwrap();
        assert_eq!(out.len(), long.len());
        stream.write(&mut out, b"two\n", false, b"7\n").unwrap();
        assert!(out.ends_with(b"xtwo\n7\n"));
    }

    #[test]
    fn failed_write_cuts_the_stream() {
        let mut output = Output::open(Destination::Stdout).unwrap();
        assert!(!output.stream.is_cut);
        output.end_failed();
        assert!(output.write(b"", true, b"line\n").is_err(), "no attempt within a minute");
        assert!(output.stream.is_cut);
    }

    #[test]
    fn new_header_is_written_within_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let destination = Destination::Directory(directory.path().to_owned(), 1 << 30);
        let mut output = Output::open(destination).unwrap();
        for (header, is_new, line) in
            [("one\n", true, "1\n"), ("one\n", false, "2\n"), ("two\n", true, "3\n")]
        {
            output.write(header.as_bytes(), is_new, line.as_bytes()).unwrap();
        }
        output.finish().unwrap();
        assert_eq!(texts(directory.path()), ["one\n1\n2\ntwo\n3\n"]);
        let name = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap();
        assert_eq!(name.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn file_of_another_server_stays_while_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Output::open(Destination::Directory(directory.path().to_owned(), 0)).unwrap();
        let (mut quiet, mut busy) = (open(), open());
        quiet.write(b"", true, b"first\n").unwrap();
        quiet.flush().unwrap();
        for _ in 0..3 {
            busy.write(b"", true, b"other\n").unwrap();
            busy.finish().unwrap();
        }
        assert_eq!(texts(directory.path()), ["first\n", "other\n"]);
        drop(quiet);
        busy.write(b"", true, b"last\n").unwrap();
        busy.finish().unwrap();
        assert_eq!(texts(directory.path()), ["last\n"]);
    }

    #[test]
    fn server_that_has_written_nothing_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let destination = Destination::Directory(directory.path().to_owned(), 1 << 30);
        Output::open(destination).unwrap().finish().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn directory_that_cannot_be_written_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Output::open(Destination::Directory(file, 1 << 30)).is_err());
    }
}
