//! The input of one evaluation: pasted text, dropped files, cluster state, profile.

use std::fs;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use opgate_admission::policy::Profile;
use opgate_text::html::visible_line;
use thiserror::Error;

use super::input_directory::{InputDirectory, InputDirectoryError};
use super::multipart::{self, MultipartError, Part};

/// Maximum bytes of the body of a request.
pub(super) const MAX_BODY_BYTES: usize = 32 << 20;

/// Maximum number of files, bytes of the path of one, and directories in it.
const MAX_FILES: usize = 2_000;
const MAX_PATH_BYTES: usize = 1_024;
const MAX_DEPTH: usize = 16;

/// Maximum bytes of the name of a file or directory.
const MAX_NAME_BYTES: usize = 255;

/// Why an input cannot be evaluated.
#[derive(Debug, Error)]
pub(super) enum UploadError {
    #[error(transparent)]
    Form(#[from] MultipartError),
    #[error("the form comes from another page: reload this one and send it again")]
    Token,
    #[error("there is nothing to evaluate: paste a text, or choose files")]
    Empty,
    #[error("there is a text and there are files: evaluate them one after the other")]
    Both,
    #[error("more than {MAX_FILES} files: use `opgate check` for more")]
    TooManyFiles,
    #[error("{0} is no path in a directory: rename the file")]
    Path(String),
    #[error("{0} is not a profile: choose one of the list")]
    Profile(String),
    #[error("the text is not UTF-8: convert it")]
    Text,
    #[error("two files are named {0}: drop their directory, or rename one")]
    Duplicate(String),
    #[error(transparent)]
    Directory(#[from] InputDirectoryError),
    #[error("the files cannot be written to a temporary directory")]
    Io(#[from] io::Error),
}

/// The fields of the page.
#[derive(Debug, Default)]
pub(super) struct Upload<'b> {
    token: &'b [u8],
    /// The pasted text.
    pub(super) text: &'b str,
    files: Vec<(PathBuf, &'b [u8])>,
    pub(super) cluster_state: &'b str,
    /// None for that of the configuration.
    pub(super) profile: Option<Profile>,
}

impl<'b> Upload<'b> {
    /// Reads the fields of a body. `token` is that of the page.
    ///
    /// # Errors
    /// If it has another format, is not of this page, or has no valid input.
    pub(super) fn parse(
        content_type: &str,
        body: &'b [u8],
        has_token: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Self, UploadError> {
        let mut upload = Self::default();
        for part in multipart::parse(content_type, body)? {
            upload.add(part)?;
        }
        if !has_token(upload.token) {
            return Err(UploadError::Token);
        }
        match (upload.text.trim().is_empty(), upload.files.is_empty()) {
            (true, true) => Err(UploadError::Empty),
            (false, false) => Err(UploadError::Both),
            _ => Ok(upload),
        }
    }

    fn add(&mut self, part: Part<'b>) -> Result<(), UploadError> {
        let Part { name, file_name, content } = part;
        let text = || std::str::from_utf8(content).map_err(|_| UploadError::Text);
        match name.as_str() {
            "token" => self.token = content,
            "text" => self.text = text()?,
            "state" => self.cluster_state = text()?,
            "profile" => self.profile = parse_profile(text()?)?,
            // A browser sends an empty file if none is chosen.
            "files" if file_name.as_deref().is_some_and(|name| !name.is_empty()) => {
                if self.files.len() == MAX_FILES {
                    return Err(UploadError::TooManyFiles);
                }
                let name = file_name.unwrap_or_default();
                let unsafe_path = || UploadError::Path(visible_line(&name, MAX_NAME_BYTES));
                self.files.push((relative_path(&name).ok_or_else(unsafe_path)?, content));
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the input to a temporary directory.
    ///
    /// # Errors
    /// If two files have one name, or the system cannot write it.
    pub(super) fn write<'d>(
        &self,
        directory: &'d InputDirectory,
    ) -> Result<InputFiles<'d>, UploadError> {
        let written = directory.fill(|root| self.write_below(root))?;
        Ok(InputFiles { written, directory })
    }

    fn write_below(&self, root: &Path) -> Result<WrittenInput, UploadError> {
        // Error messages have canonical paths.
        let root = root.canonicalize()?;
        let input = root.join("input");
        fs::create_dir(&input)?;
        let pasted = [(pasted_name(self.text), self.text.as_bytes())];
        let files = if self.files.is_empty() { &pasted[..] } else { &self.files };
        for (path, content) in files {
            let target = input.join(path);
            fs::create_dir_all(target.parent().unwrap_or(&input))?;
            let created = fs::File::create_new(target).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    UploadError::Duplicate(visible_line(&path.to_string_lossy(), MAX_NAME_BYTES))
                }
                _ => UploadError::Io(error),
            });
            created?.write_all(content)?;
        }
        let cluster_state = root.join("cluster-state.yaml");
        let has_state = !self.cluster_state.trim().is_empty();
        if has_state {
            fs::write(&cluster_state, self.cluster_state)?;
        }
        let file = match files {
            // The directory of a file can be a bundle.
            [(path, _)] if path.components().count() == 1 => Some(path.clone()),
            _ => None,
        };
        let cluster_state = has_state.then_some(cluster_state);
        Ok(WrittenInput { root, input, file, cluster_state })
    }

    /// Returns the text of a file.
    pub(super) fn text_of(&self, name: &str) -> Option<&'b str> {
        if self.files.is_empty() {
            return (pasted_name(self.text) == Path::new(name)).then_some(self.text);
        }
        let (_, content) = self.files.iter().find(|(path, _)| path == Path::new(name))?;
        std::str::from_utf8(content).ok()
    }
}

/// The files of an input, which are removed when it is dropped.
#[derive(Debug)]
pub(super) struct InputFiles<'d> {
    written: WrittenInput,
    directory: &'d InputDirectory,
}

impl InputFiles<'_> {
    /// Removes the path of the temporary directory from a message.
    pub(super) fn without_directory(&self, message: &str) -> String {
        opgate_platform::files::remove_directory(message, &self.root, "(input)")
    }
}

impl Deref for InputFiles<'_> {
    type Target = WrittenInput;

    fn deref(&self) -> &WrittenInput {
        &self.written
    }
}

impl Drop for InputFiles<'_> {
    fn drop(&mut self) {
        self.directory.clear();
    }
}

/// The paths of a written input.
#[derive(Debug)]
pub(super) struct WrittenInput {
    root: PathBuf,
    /// The directory of the input.
    pub(super) input: PathBuf,
    /// The only file in it, if there is one.
    pub(super) file: Option<PathBuf>,
    pub(super) cluster_state: Option<PathBuf>,
}

/// The name of pasted text, by which its format is detected.
fn pasted_name(text: &str) -> PathBuf {
    let is_json = text.trim_start().starts_with(['{', '[']);
    PathBuf::from(if is_json { "pasted.json" } else { "pasted.yaml" })
}

fn parse_profile(text: &str) -> Result<Option<Profile>, UploadError> {
    if text.is_empty() {
        return Ok(None);
    }
    let profile = Profile::from_str(text, false);
    profile.map(Some).map_err(|_| UploadError::Profile(visible_line(text, MAX_NAME_BYTES)))
}

/// Returns the path of a file below a directory. None if it leads elsewhere.
fn relative_path(name: &str) -> Option<PathBuf> {
    let is_part = |part: &&str| {
        (1..=MAX_NAME_BYTES).contains(&part.len())
            && !matches!(*part, "." | "..")
            // On Windows, `C:` leads to another drive, and `a.yaml:x` to a stream of a file.
            && !part.contains(|c: char| c.is_control() || c == '\\' || c == ':')
    };
    let parts: Vec<_> = name.split('/').collect();
    let is_path =
        name.len() <= MAX_PATH_BYTES && parts.len() <= MAX_DEPTH && parts.iter().all(is_part);
    is_path.then(|| parts.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_directory() {
        for (name, expected) in [
            ("a.yaml", true),
            ("bundle/manifests/a b.yaml", true),
            ("ä/.opgate.yaml", true),
            ("", false),
            ("/etc/passwd", false),
            ("../a", false),
            ("a/../../b", false),
            ("a//b", false),
            ("a/", false),
            ("./a", false),
            ("a\\..\\b", false),
            ("a\0b", false),
            ("C:/a", false),
            ("a.yaml:x", false),
            ("a\nb", false),
            (&*"a/".repeat(16), false),
            (&*"a".repeat(256), false),
        ] {
            assert_eq!(relative_path(name).is_some(), expected, "{name:?}");
        }
    }

    fn form(parts: &[(&str, &str)]) -> String {
        let part = |(header, content): &(&str, &str)| {
            format!("--X\r\nContent-Disposition: form-data; name={header}\r\n\r\n{content}\r\n")
        };
        let mut body: String = parts.iter().map(part).collect();
        body.push_str("--X--");
        body
    }

    fn parse(body: &str) -> Result<Upload<'_>, UploadError> {
        Upload::parse("multipart/form-data; boundary=X", body.as_bytes(), |token| token == b"t")
    }

    #[test]
    fn forms_without_one_input_are_errors() {
        let token = ("\"token\"", "t");
        let text = ("\"text\"", "a: 1");
        let file = ("\"files\"; filename=\"a.yaml\"", "a: 1");
        for (parts, expected) in [
            (&[text][..], "the form comes from another page"),
            (&[("\"token\"", "x"), text], "the form comes from another page"),
            (&[token, ("\"text\"", " \n")], "there is nothing to evaluate"),
            (&[token, ("\"files\"; filename=\"\"", "")], "there is nothing to evaluate"),
            (&[token, text, file], "there is a text and there are files"),
            (&[token, ("\"files\"; filename=\"../a\"", "")], "../a is no path"),
            (&[token, text, ("\"profile\"", "ocp-9")], "ocp-9 is not a profile"),
        ] {
            let error = parse(&form(parts)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn input_is_written_with_its_names_and_removed() {
        let files = [
            ("\"token\"", "t"),
            ("\"files\"; filename=\"b/x.yaml\"", "x: 1"),
            ("\"files\"; filename=\"b/y.yaml\"", "y: 1"),
            ("\"state\"", "kind: List"),
            ("\"profile\"", "ocp-4.12"),
        ];
        let body = form(&files);
        let upload = parse(&body).unwrap();
        assert_eq!(upload.profile, Some(Profile::Ocp412));
        assert_eq!((upload.text_of("b/x.yaml"), upload.text_of("x.yaml")), (Some("x: 1"), None));
        let directory = InputDirectory::default();
        let written = upload.write(&directory).unwrap();
        assert_eq!(fs::read_to_string(written.input.join("b/y.yaml")).unwrap(), "y: 1");
        assert_eq!(written.file, None);
        let state = written.cluster_state.clone().unwrap();
        assert_eq!(fs::read_to_string(&state).unwrap(), "kind: List");
        drop(written);
        assert!(!state.exists());
        for (text, name) in [(" {}", "pasted.json"), ("a: 1", "pasted.yaml")] {
            let body = form(&[("\"token\"", "t"), ("\"text\"", text)]);
            let upload = parse(&body).unwrap();
            let written = upload.write(&directory).unwrap();
            assert_eq!(written.file.as_deref(), Some(Path::new(name)));
            assert_eq!((written.cluster_state.as_ref(), upload.text_of(name)), (None, Some(text)));
        }
    }

    #[test]
    fn closed_directory_is_removed_and_takes_no_input() {
        let body = form(&[("\"token\"", "t"), ("\"text\"", "a: 1")]);
        let (upload, directory) = (parse(&body).unwrap(), InputDirectory::default());
        let written = upload.write(&directory).unwrap();
        assert!(written.input.exists());
        directory.close().unwrap();
        assert!(!written.input.exists());
        drop(written);
        let error = upload.write(&directory).unwrap_err().to_string();
        assert!(error.starts_with("the command ends"), "{error}");
    }
}
