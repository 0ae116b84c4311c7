//! Names and passwords by registry, from a docker configuration: the file of `docker login` and `oras login`, and the value of
//! `.dockerconfigjson` in a Secret of type `kubernetes.io/dockerconfigjson`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use opgate_platform::files;
use serde::Deserialize;

use crate::{Error, Reference};

/// The reason why a docker configuration is invalid, without its values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct CredentialsError(String);

/// Maximum bytes of a configuration.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Names of docker's own registry.
const DOCKER_HOSTS: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// The credentials for one registry.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Login {
    /// A name and a password.
    Password { username: String, password: String },
    /// A token to exchange for others.
    Identity(String),
}

impl Login {
    /// Returns the value of `Authorization` with name and password.
    pub(crate) fn basic(username: &str, password: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{password}")))
    }
}

/// Never shows a value.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// Credentials by registry.
#[derive(Debug, Default)]
pub struct Credentials {
    /// The file that they are from.
    path: Option<PathBuf>,
    /// By host, or by host and the first parts of a path.
    logins: BTreeMap<String, Option<Login>>,
    /// Hosts whose credentials another program stores.
    helpers: BTreeSet<String>,
    /// The program that stores the credentials of all hosts.
    store: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl Credentials {
    /// No credentials: all requests are anonymous.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the credentials of the user: `config.json` in `DOCKER_CONFIG`, or in `~/.docker`. A missing file is no error.
    ///
    /// # Errors
    /// If the file cannot be read or is no docker configuration.
    pub fn from_user() -> Result<Self, Error> {
        let home = || files::home_directory().map(|home| home.join(".docker"));
        let named = std::env::var_os("DOCKER_CONFIG").filter(|directory| !directory.is_empty());
        match named.map(PathBuf::from).or_else(home).map(|directory| directory.join("config.json"))
        {
            Some(path) if path.exists() => Self::read(&path),
            _ => Ok(Self::none()),
        }
    }

    /// Reads the credentials in a file.
    ///
    /// # Errors
    /// If the file cannot be read or is no docker configuration.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |why: &str| Error::permanent(format!("{}: {why}", path.display()));
        let read = || -> io::Result<String> {
            let mut text = String::new();
            let file = File::open(path)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other("not a regular file"));
            }
            file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
            if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
                return Err(io::Error::other("larger than 1 MiB"));
            }
            Ok(text)
        };
        let text = read().map_err(|error| wrong(&error.to_string()))?;
        let mut credentials = Self::parse(&text).map_err(|why| wrong(&why.to_string()))?;
        credentials.path = Some(path.to_owned());
        Ok(credentials)
    }

    fn parse(text: &str) -> Result<Self, CredentialsError> {
        // An error of serde quotes the value, which may be a password.
        let config: Config = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            CredentialsError(format!("not a docker configuration (line {line}, column {column}): it has `auths` by registry, as `docker login` writes it"))
        })?;
        let mut logins = BTreeMap::new();
        for (key, entry) in config.auths {
            let login =
                entry.login().map_err(|why| CredentialsError(format!("auths {key:?}: {why}")))?;
            logins.insert(normalize_key(&key), login);
        }
        Ok(Self {
            path: None,
            logins,
            helpers: config.cred_helpers.keys().map(|key| normalize_key(key)).collect(),
            store: config.creds_store.filter(|store| !store.is_empty()),
        })
    }

    /// Returns the credentials for a repository: the entry whose path is its longest prefix.
    ///
    /// # Errors
    /// If only another program stores them.
    pub(crate) fn of(&self, reference: &Reference) -> Result<Option<&Login>, Error> {
        let host = reference.host();
        let hosts: &[&str] = if DOCKER_HOSTS.contains(&host) { &DOCKER_HOSTS } else { &[host] };
        let path = self.path.as_ref().map_or(String::new(), |path| format!("{}: ", path.display()));
        let unknown = |what: String| {
            Err(Error::permanent(format!(
                "{path}credentials of {host} are in another program ({what}), which opgate does not run: write them under `auths`, or name another file with --registry-config"
            )))
        };
        for host in hosts {
            if self.helpers.contains(*host) {
                return unknown("credHelpers".to_owned());
            }
            let mut name = format!("{host}/{}", reference.repository());
            loop {
                match self.logins.get(&name) {
                    Some(Some(login)) => return Ok(Some(login)),
                    Some(None) => {
                        if let Some(store) = &self.store {
                            return unknown(format!("credsStore {store:?}"));
                        }
                    }
                    None => {}
                }
                let Some((shorter, _)) = name.rsplit_once('/') else { break };
                name = shorter.to_owned();
            }
        }
        Ok(None)
    }

    /// The source of the credentials, for errors.
    pub(crate) fn source(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "no docker configuration".to_owned(),
        }
    }
}

impl Entry {
    fn login(self) -> Result<Option<Login>, CredentialsError> {
        let full = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (mut username, mut password) = (full(self.username), full(self.password));
        if let Some(auth) = full(self.auth) {
            let decoded = BASE64_STANDARD.decode(auth.trim()).ok();
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            let (name, word) = decoded
                .as_deref()
                // Docker wrote a zero byte after passwords.
                .and_then(|text| text.trim_end_matches('\0').split_once(':'))
                .ok_or_else(|| {
                    CredentialsError("`auth` is not base64 of NAME:PASSWORD".to_owned())
                })?;
            (username, password) = (Some(name.to_owned()), full(Some(word.to_owned())));
        }
        if let Some(token) = full(self.identitytoken) {
            return Ok(Some(Login::Identity(token)));
        }
        Ok(match (username, password) {
            (Some(username), Some(password)) if username == "<token>" => {
                Some(Login::Identity(password))
            }
            (Some(username), Some(password)) => Some(Login::Password { username, password }),
            (None, None) => None,
            _ => return Err(CredentialsError("name or password is missing".to_owned())),
        })
    }
}

/// Returns a key without scheme and version: docker writes `https://index.docker.io/v1/`.
fn normalize_key(key: &str) -> String {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    let key = key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key);
    match key.split_once('/') {
        Some((host, path)) => format!("{}/{path}", host.to_ascii_lowercase()),
        None => key.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(config: &str, reference: &str) -> Result<Option<Login>, String> {
        let credentials = Credentials::parse(config).map_err(|error| error.to_string())?;
        let reference = Reference::parse(reference).unwrap();
        credentials.of(&reference).map(Option::<&Login>::cloned).map_err(|error| error.to_string())
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be none")]
    fn password(username: &str, password: &str) -> Option<Login> {
        Some(Login::Password { username: username.to_owned(), password: password.to_owned() })
    }

    #[test]
    fn registry_entry_is_found() {
        // alice:secret, and bob:a:b
        let (alice, bob) = ("YWxpY2U6c2VjcmV0", "Ym9iOmE6Yg==");
        for (config, reference, expected) in [
            (
                format!(r#"{{"auths": {{"ghcr.io": {{"auth": "{alice}"}}}}}}"#),
                "oci://ghcr.io/a/b:1",
                password("alice", "secret"),
            ),
            (
                format!(r#"{{"auths": {{"ghcr.io": {{"auth": "{bob}"}}}}}}"#),
                "oci://ghcr.io/a/b:1",
                password("bob", "a:b"),
            ),
            (
                format!(r#"{{"auths": {{"ghcr.io": {{"auth": "{alice}"}}}}}}"#),
                "oci://quay.io/a/b:1",
                None,
            ),
            (
                format!(r#"{{"auths": {{"https://GHCR.io/v2/": {{"auth": "{alice}"}}}}}}"#),
                "oci://ghcr.io/a/b:1",
                password("alice", "secret"),
            ),
            (
                format!(r#"{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{alice}"}}}}}}"#),
                "oci://docker.io/a:1",
                password("alice", "secret"),
            ),
            (
                r#"{"auths": {"localhost:5000": {"username": "u", "password": "p"}}}"#.to_owned(),
                "oci://localhost:5000/a:1",
                password("u", "p"),
            ),
            (
                r#"{"auths": {"localhost": {"username": "u", "password": "p"}}}"#.to_owned(),
                "oci://localhost:5000/a:1",
                None,
            ),
            (
                format!(
                    r#"{{"auths": {{"quay.io": {{"auth": "{alice}"}}, "quay.io/team": {{"auth": "{bob}"}}}}}}"#
                ),
                "oci://quay.io/team/a:1",
                password("bob", "a:b"),
            ),
            (
                format!(
                    r#"{{"auths": {{"quay.io": {{"auth": "{alice}"}}, "quay.io/team": {{"auth": "{bob}"}}}}}}"#
                ),
                "oci://quay.io/teams/a:1",
                password("alice", "secret"),
            ),
            (
                r#"{"auths": {"a.io": {"auth": "PHRva2VuPjo=", "identitytoken": "t"}}}"#.to_owned(),
                "oci://a.io/a:1",
                Some(Login::Identity("t".to_owned())),
            ),
            (r#"{"auths": {"a.io": {}}}"#.to_owned(), "oci://a.io/a:1", None),
            (r#"{"credsStore": "desktop", "auths": {}}"#.to_owned(), "oci://a.io/a:1", None),
            (
                r#"{"credHelpers": {"b.io": "x"}, "HttpHeaders": {"a": "b"}}"#.to_owned(),
                "oci://a.io/a:1",
                None,
            ),
            ("{}".to_owned(), "oci://a.io/a:1", None),
        ] {
            assert_eq!(login(&config, reference), Ok(expected), "{config} {reference}");
        }
    }

    #[test]
    fn unusable_credentials_error_hides_their_content() {
        for (config, why) in [
            (r#"{"credHelpers": {"a.io": "ecr-login"}}"#, "credHelpers"),
            (r#"{"credsStore": "desktop", "auths": {"a.io": {}}}"#, "credsStore \"desktop\""),
            (r#"{"auths": {"a.io": {"auth": "c2VjcmV0"}}}"#, "not base64 of NAME:PASSWORD"),
            (r#"{"auths": {"a.io": {"auth": "%secret%"}}}"#, "not base64 of NAME:PASSWORD"),
            (r#"{"auths": {"a.io": {"username": "u"}}}"#, "password is missing"),
            (r#"{"auths": {"a.io": "secret"}}"#, "not a docker configuration"),
            (r#"{"auths": {"a.io": {"password": ["secret"]}}}"#, "not a docker configuration"),
            ("secret", "not a docker configuration"),
        ] {
            let said = login(config, "oci://a.io/a:1").unwrap_err();
            assert!(said.contains(why), "{config}: {said}");
            assert!(!said.contains("secret") && !said.contains("c2VjcmV0"), "{said}");
        }
        let shown = format!(
            "{:?}",
            Credentials::parse(r#"{"auths": {"a.io": {"username": "u", "password": "hush"}}}"#)
        );
        assert!(!shown.contains("hush"), "{shown}");
    }
}
