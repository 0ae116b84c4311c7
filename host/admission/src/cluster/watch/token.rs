//! A token in a file, from the `tokenFile` of a kubeconfig or from a pod.
//!
//! The client uses the content unchanged. If a file ends with a newline, as editors and `echo`
//! write it, the header is invalid. `kubectl` removes white space around a token.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, StatusCode};
use kube::config::AuthInfo;
use parking_lot::Mutex;

/// The reason why a file has no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::cluster) struct TokenError(String);

/// Tokens of service accounts are replaced long before they expire. The client reads them at the
/// same interval.
const TOKEN_REFRESH_INTERVAL: Duration = Duration::from_secs(50);

/// The newest valid token of a file.
#[derive(Debug, Clone)]
pub(in crate::cluster) struct Token(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    read_at: Instant,
    header: HeaderValue,
    /// Counts the tokens: two requests with the same number have the same token.
    number: u64,
}

impl Current {
    /// If the file can no longer be read, the last token stays: some systems remove the file after
    /// it was read.
    fn renew(&mut self, path: &Path, now: Instant) {
        if let Ok(newest) = read(path)
            && newest != self.header
        {
            self.header = newest;
            self.number = self.number.saturating_add(1);
        }
        self.read_at = now;
    }
}

impl Token {
    /// Reads the token file of a client, if the client authenticates with one.
    ///
    /// # Errors
    /// If there is no token in the file.
    pub(in crate::cluster) fn of(auth: &mut AuthInfo) -> Result<Option<Self>, TokenError> {
        // In the order in which the client reads them.
        let other = auth.auth_provider.is_some() || auth.username.is_some() || auth.token.is_some();
        let Some(path) = auth.token_file.take().filter(|_| !other).map(PathBuf::from) else {
            return Ok(None);
        };
        let header = read(&path)?;
        let current = Mutex::new(Current { read_at: Instant::now(), header, number: 0 });
        Ok(Some(Self(Arc::new(Shared { path, current }))))
    }

    /// Adds the credentials to a request.
    pub(in crate::cluster) fn authorize<B>(&self, mut request: Request<B>) -> Request<B> {
        request.headers_mut().insert(AUTHORIZATION, self.header(Instant::now()));
        request
    }

    /// The number of the current token.
    pub(in crate::cluster) fn number(&self) -> u64 {
        self.0.current.lock().number
    }

    /// Reads the file at once if an API server has rejected the token: it may contain a new one.
    pub(in crate::cluster) fn record_status(&self, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED {
            self.0.current.lock().renew(&self.0.path, Instant::now());
        }
    }

    fn header(&self, now: Instant) -> HeaderValue {
        let mut current = self.0.current.lock();
        if now.saturating_duration_since(current.read_at) >= TOKEN_REFRESH_INTERVAL {
            current.renew(&self.0.path, now);
        }
        current.header.clone()
    }
}

fn read(path: &Path) -> Result<HeaderValue, TokenError> {
    let named = |why: String| TokenError(format!("token file {}: {why}", path.display()));
    let token = fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
    let token = token.trim();
    if token.is_empty() {
        return Err(named("it is empty: put a token in it".to_owned()));
    }
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.map_err(|_| {
        named("not a token: it must be one line of printable characters".to_owned())
    })?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_file_is_trimmed_and_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token").display().to_string();
        fs::write(&path, "first\n").unwrap();
        let named = || AuthInfo { token_file: Some(path.clone()), ..AuthInfo::default() };
        let token = Token::of(&mut named()).unwrap().unwrap();
        let header = |at| token.header(at).to_str().unwrap().to_owned();
        let start = Instant::now();
        assert_eq!(header(start), "Bearer first");
        fs::write(&path, "  second \r\n").unwrap();
        assert_eq!(header(start), "Bearer first");
        assert_eq!(header(start + TOKEN_REFRESH_INTERVAL * 2), "Bearer second");
        fs::write(&path, "\n").unwrap();
        assert_eq!(
            header(start + TOKEN_REFRESH_INTERVAL * 4),
            "Bearer second",
            "a bad one changes nothing"
        );
        // If the token is rejected, the file is read at once.
        fs::write(&path, "third").unwrap();
        let number = token.number();
        token.record_status(StatusCode::FORBIDDEN);
        assert_eq!((header(start), token.number()), ("Bearer second".to_owned(), number));
        token.record_status(StatusCode::UNAUTHORIZED);
        assert_eq!((header(start), token.number()), ("Bearer third".to_owned(), number + 1));
        token.record_status(StatusCode::UNAUTHORIZED);
        assert_eq!(token.number(), number + 1, "the same token again");
        fs::write(&path, "\n").unwrap();
        let why = Token::of(&mut named()).unwrap_err().to_string();
        assert!(why.starts_with("token file /") && why.contains("it is empty"), "{why}");
        fs::write(&path, "a\nb").unwrap();
        assert!(Token::of(&mut named()).unwrap_err().to_string().contains("one line"));
        let inline = AuthInfo { token: Some("x".to_owned().into()), ..named() };
        assert!(Token::of(&mut inline.clone()).unwrap().is_none());
    }
}
