//! Registries that are slow, truncate, redirect and lie. Nothing that they do is served, is waited for without end, fills the memory, or
//! gets credentials that are for others.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod fake;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fake::{
    FakeRegistry, FakeResponse, INDEX_TYPE, MANIFEST_TYPE, REPOSITORY, RecordedRequest,
    RegistryContent, artifact,
};
use opgate_registry::{
    Cache, Credentials, Digest, Error, Limits, Options, Proxies, PublicKeys, PulledComponent,
    Reference, Registry,
};
use serde_json::json;

/// Where the registry is not honest, how, and what is said of it.
type Case = (&'static str, fn() -> String, fn() -> FakeResponse, &'static str);
/// Makes the layers of a signature.
type MakeLayers<'k> =
    Box<dyn Fn(&mut RegistryContent, &Digest) -> Option<Vec<serde_json::Value>> + 'k>;

const COMPONENT: &[u8] = b"\0asm, as far as a registry is concerned";

/// Few attempts, and short pauses between them. What must not run out in a test has all the time.
fn limits() -> Limits {
    let timeout = Duration::from_secs(120);
    Limits {
        total_timeout: timeout,
        connect_timeout: timeout,
        progress_timeout: timeout,
        max_attempts: 3,
        initial_backoff: Duration::from_millis(1),
        ..Limits::of(1 << 20)
    }
}

fn registry_with(insecure: &[&FakeRegistry], credentials: Credentials, limits: Limits) -> Registry {
    let insecure: BTreeSet<_> = insecure.iter().map(|fake| fake.address.to_string()).collect();
    let proxies = Proxies::none();
    Registry::new(Options { credentials, ca: None, insecure, proxies, limits }).unwrap()
}

fn registry(fake: &FakeRegistry, limits: Limits) -> Registry {
    registry_with(&[fake], Credentials::none(), limits)
}

async fn pull(registry: &Registry, reference: &str) -> Result<PulledComponent, Error> {
    registry.pull(&Reference::parse(reference).unwrap(), None, None).await
}

fn login(directory: &Path, host: &str) -> Credentials {
    let path = directory.join("config.json");
    let config = json!({"auths": {host: {"username": "alice", "password": "hush"}}});
    std::fs::write(&path, config.to_string()).unwrap();
    Credentials::read(&path).unwrap()
}

fn http_head(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").into_bytes()
}

/// An honest registry but for one path.
fn honest_except(
    path: String,
    answer: fn() -> FakeResponse,
) -> impl Fn(&RecordedRequest, usize) -> FakeResponse {
    let mut content = RegistryContent::default();
    content.artifact("v1", COMPONENT);
    move |request, _| if request.path == path { answer() } else { content.respond(&request.path) }
}

fn manifest_path() -> String {
    format!("/v2/{REPOSITORY}/manifests/v1")
}

fn layer_path() -> String {
    format!("/v2/{REPOSITORY}/blobs/{}", Digest::of(COMPONENT))
}

#[tokio::test]
async fn valid_registry_returns_the_component() {
    let fake =
        FakeRegistry::start(honest_except("/".to_owned(), || FakeResponse::status(500))).await;
    let pulled = pull(&registry(&fake, limits()), &fake.reference(":v1")).await.unwrap();
    assert_eq!(pulled.component, COMPONENT);
    let manifest = artifact(&Digest::of(COMPONENT), COMPONENT.len());
    assert_eq!(pulled.digest, Digest::of(manifest.as_bytes()));
    let pinned = fake.reference(&format!(":other@{}", pulled.digest));
    assert_eq!(pull(&registry(&fake, limits()), &pinned).await.unwrap().component, COMPONENT);
}

#[tokio::test]
async fn inconsistent_registry_responses_are_rejected() {
    let cases: [Case; 24] = [
        (
            "another layer",
            layer_path,
            || FakeResponse::ok("application/wasm", vec![b'x'; COMPONENT.len()]),
            "has changed the content",
        ),
        (
            "a shorter layer",
            layer_path,
            || FakeResponse::ok("application/wasm", "short"),
            "has 5 bytes",
        ),
        (
            "a longer layer",
            layer_path,
            || FakeResponse::ok("application/wasm", vec![0; 1_000]),
            "larger than",
        ),
        (
            "a layer without end",
            layer_path,
            || FakeResponse::Drip(http_head("HTTP/1.1 200 x\n\n"), b'x'),
            "larger than",
        ),
        (
            "chunks without end",
            layer_path,
            || {
                FakeResponse::RawBytes(
                    [
                        http_head("HTTP/1.1 200 x\ntransfer-encoding: chunked\n\n"),
                        b"5\r\nxxxxx\r\n".repeat(100),
                    ]
                    .concat(),
                )
            },
            "larger than",
        ),
        (
            "a stated length",
            layer_path,
            || FakeResponse::RawBytes(http_head("HTTP/1.1 200 x\ncontent-length: 99999999999\n\n")),
            "larger than",
        ),
        (
            "truncation",
            layer_path,
            || FakeResponse::RawBytes(http_head("HTTP/1.1 200 x\ncontent-length: 39\n\nhalf")),
            "3 attempts: the answer broke off",
        ),
        (
            "an encoding",
            layer_path,
            || {
                FakeResponse::ok("application/wasm", COMPONENT)
                    .with_header("content-encoding", "gzip")
            },
            "encoding \"gzip\"",
        ),
        ("no layer", layer_path, || FakeResponse::status(404), "404"),
        (
            "a large manifest",
            manifest_path,
            || FakeResponse::ok(MANIFEST_TYPE, vec![b' '; (4 << 20) + 1]),
            "larger than 4194304 bytes",
        ),
        (
            "a page",
            manifest_path,
            || FakeResponse::ok("text/html", "<html>log in</html>"),
            "not a manifest",
        ),
        (
            "a manifest as a page",
            manifest_path,
            || FakeResponse::ok("text/html", artifact(&Digest::of(b""), 0)),
            "its type is \"text/html\"",
        ),
        (
            "a large component",
            manifest_path,
            || FakeResponse::ok(MANIFEST_TYPE, artifact(&Digest::of(b""), 1 << 40)),
            "more than 1048576",
        ),
        (
            "a digest as a path",
            manifest_path,
            || {
                FakeResponse::ok(
                    MANIFEST_TYPE,
                    artifact(&Digest::of(b""), 0).replace("sha256:e3b0", "../../"),
                )
            },
            "is no digest",
        ),
        (
            "another digest of the manifest",
            manifest_path,
            || {
                FakeResponse::ok(MANIFEST_TYPE, artifact(&Digest::of(COMPONENT), COMPONENT.len()))
                    .with_header("docker-content-digest", "sha256:0")
            },
            "says that the digest is",
        ),
        (
            "deep JSON",
            manifest_path,
            || FakeResponse::ok(MANIFEST_TYPE, "[".repeat(1 << 20)),
            "not a manifest",
        ),
        (
            "long headers",
            manifest_path,
            || {
                FakeResponse::RawBytes(
                    [http_head("HTTP/1.1 200 x\nx: "), vec![b'x'; 1 << 20]].concat(),
                )
            },
            "too large",
        ),
        (
            "many headers",
            manifest_path,
            || {
                FakeResponse::RawBytes(
                    [http_head("HTTP/1.1 200 x\n"), b"x: y\r\n".repeat(200), b"\r\n".to_vec()]
                        .concat(),
                )
            },
            "too large",
        ),
        (
            "no HTTP",
            manifest_path,
            || FakeResponse::RawBytes(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec()),
            "invalid HTTP",
        ),
        ("nothing", manifest_path, || FakeResponse::RawBytes(Vec::new()), "3 attempts"),
        (
            "a redirect to nowhere",
            manifest_path,
            || FakeResponse::status(302),
            "without an address",
        ),
        (
            "a redirect without TLS",
            layer_path,
            || FakeResponse::status(307).with_header("location", "http://169.254.169.254/latest"),
            "only https is followed",
        ),
        (
            "a redirect to a file",
            layer_path,
            || FakeResponse::status(307).with_header("location", "file:///etc/passwd"),
            "not an address",
        ),
        (
            "a redirect to itself",
            layer_path,
            || FakeResponse::status(307).with_header("location", &layer_path()),
            "more than 5 redirects",
        ),
    ];
    for (what, path, answer, why) in cases {
        let fake = FakeRegistry::start(honest_except(path(), answer)).await;
        let error = pull(&registry(&fake, limits()), &fake.reference(":v1")).await;
        let said = error.map(|_| ()).expect_err(what).to_string();
        assert!(said.contains(why), "{what}: {said}");
        assert!(
            said.starts_with("oci://") && said.lines().count() == 1 && said.len() < 1_100,
            "{what}: {said}"
        );
    }
}

#[tokio::test]
async fn slow_registry_ends_in_a_timeout() {
    let short = Duration::from_millis(100);
    let standing = Limits { progress_timeout: short, max_attempts: 2, ..limits() };
    let dripping = Limits { total_timeout: short, ..limits() };
    let cases: [(Limits, Case); 5] = [
        (standing, ("silence", manifest_path, || FakeResponse::Stall(Vec::new()), "2 attempts")),
        (
            standing,
            (
                "silence in a head",
                manifest_path,
                || FakeResponse::Stall(http_head("HTTP/1.1 200 x\ncontent-")),
                "no answer within",
            ),
        ),
        (
            standing,
            (
                "silence in a body",
                layer_path,
                || FakeResponse::Stall(http_head("HTTP/1.1 200 x\ncontent-length: 39\n\nhalf")),
                "stood still",
            ),
        ),
        (
            dripping,
            (
                "a byte at a time",
                layer_path,
                || {
                    FakeResponse::Drip(
                        http_head("HTTP/1.1 200 x\ntransfer-encoding: chunked\n\n"),
                        b'0',
                    )
                },
                "not done within",
            ),
        ),
        (
            dripping,
            (
                "a head without end",
                layer_path,
                || FakeResponse::Drip(http_head("HTTP/1.1 200 x\nx: "), b'x'),
                "not done within",
            ),
        ),
    ];
    for (limits, (what, path, answer, why)) in cases {
        let fake = FakeRegistry::start(honest_except(path(), answer)).await;
        let said =
            pull(&registry(&fake, limits), &fake.reference(":v1")).await.unwrap_err().to_string();
        assert!(said.contains(why), "{what}: {said}");
    }
}

#[tokio::test]
async fn endless_handshake_ends_in_a_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let reference = format!("oci://{}/{REPOSITORY}:v1", listener.local_addr().unwrap());
    let limits =
        Limits { connect_timeout: Duration::from_millis(100), max_attempts: 2, ..limits() };
    let registry = registry_with(&[], Credentials::none(), limits);
    let said = pull(&registry, &reference).await.unwrap_err().to_string();
    assert!(said.contains("2 attempts") && said.contains("no connection within"), "{said}");
}

#[tokio::test]
async fn transient_errors_are_retried_and_permanent_ones_are_not() {
    for (codes, retry_after, is_pulled, requests) in [
        (vec![503, 429], None, true, 4),
        (vec![500], Some("0"), true, 3),
        (vec![502, 503, 504], None, false, 3),
        (vec![429], Some("3600"), false, 1),
        (vec![400], None, false, 1),
        (vec![404], None, false, 1),
    ] {
        let mut content = RegistryContent::default();
        content.artifact("v1", COMPONENT);
        let failing = codes.clone();
        let fake =
            FakeRegistry::start(move |request, number| match (failing.get(number), retry_after) {
                (Some(code), Some(after)) => {
                    FakeResponse::status(*code).with_header("retry-after", after)
                }
                (Some(code), None) => FakeResponse::status(*code),
                (None, _) => content.respond(&request.path),
            })
            .await;
        let pulled = pull(&registry(&fake, limits()), &fake.reference(":v1")).await;
        assert_eq!(pulled.is_ok(), is_pulled, "{codes:?}: {:?}", pulled.err());
        assert_eq!(fake.requests().len(), requests, "{codes:?}");
    }
}

#[tokio::test]
async fn credentials_are_sent_only_to_their_registry() {
    let directory = tempfile::tempdir().unwrap();
    let mut content = RegistryContent::default();
    content.artifact("v1", COMPONENT);
    let blobs = content.clone();
    // The other host has the blob under another path, and would like to be told a password.
    let other = FakeRegistry::start(move |request, _| match request.path.strip_prefix("/cdn") {
        Some(path) if !request.headers.contains_key("authorization") => {
            blobs.respond(path.split('?').next().unwrap())
        }
        _ => FakeResponse::status(401).with_header("www-authenticate", "Basic realm=\"more\""),
    })
    .await;
    let tokens = FakeRegistry::start(|request, _| {
        assert!(
            request.path.starts_with(
                "/token?service=the%20registry&scope=repository%3Ateam%2Fpolicy%3Apull"
            ),
            "{}",
            request.path
        );
        FakeResponse::ok("application/json", r#"{"access_token": "t1"}"#)
    })
    .await;
    let (realm, cdn) = (tokens.address, other.address);
    let fake = FakeRegistry::start(move |request, _| match request.headers.get("authorization").map(String::as_str) {
        None => FakeResponse::status(401)
            .with_header("www-authenticate", &format!("Bearer realm=\"http://{realm}/token\",service=\"the registry\",scope=\"registry:catalog:*\"")),
        Some("Bearer t1") if request.path.contains("/blobs/") => {
            FakeResponse::status(307).with_header("location", &format!("http://{cdn}/cdn{}?signature=hush", request.path))
        }
        Some("Bearer t1") => content.respond(&request.path),
        Some(other) => panic!("{other}"),
    })
    .await;
    let credentials = login(directory.path(), &fake.address.to_string());
    let registry = registry_with(&[&fake, &other, &tokens], credentials, limits());
    let pulled = pull(&registry, &fake.reference(":v1")).await.unwrap();
    assert_eq!(pulled.component, COMPONENT);
    assert_eq!(tokens.requests().len(), 1, "a token is used until it is refused");
    let basic = format!("Basic {}", BASE64_STANDARD.encode("alice:hush"));
    assert_eq!(tokens.requests()[0].headers.get("authorization"), Some(&basic));
    assert!(other.requests().iter().all(|request| !request.headers.contains_key("authorization")));

    // An identity token is exchanged, and is in no address.
    let tokens = FakeRegistry::start(|request, _| {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/token"));
        assert!(
            request.body.contains("grant_type=refresh_token")
                && request.body.contains("refresh_token=hush"),
            "{}",
            request.body
        );
        FakeResponse::ok("application/json", r#"{"token": "t1"}"#)
    })
    .await;
    let realm = tokens.address;
    let mut content = RegistryContent::default();
    content.artifact("v1", COMPONENT);
    let fake = FakeRegistry::start(move |request, _| match request.headers.get("authorization") {
        None => FakeResponse::status(401)
            .with_header("www-authenticate", &format!("Bearer realm=\"http://{realm}/token\"")),
        Some(_) => content.respond(&request.path),
    })
    .await;
    let path = directory.path().join("identity.json");
    let host = fake.address.to_string();
    std::fs::write(&path, json!({"auths": {host: {"identitytoken": "hush"}}}).to_string()).unwrap();
    let registry = registry_with(&[&fake, &tokens], Credentials::read(&path).unwrap(), limits());
    assert_eq!(pull(&registry, &fake.reference(":v1")).await.unwrap().component, COMPONENT);
}

#[tokio::test]
async fn credentials_are_not_sent_to_foreign_token_servers() {
    let directory = tempfile::tempdir().unwrap();
    let thief =
        FakeRegistry::start(|_, _| FakeResponse::ok("application/json", r#"{"token": "t"}"#)).await;
    let at = thief.address;
    let challenges: [(&str, &str); 4] = [
        ("Bearer realm=\"http://THIEF/token\"", "no https address"),
        ("Bearer realm=\"ftp://THIEF/token\"", "no https address"),
        ("Digest realm=\"x\"", "does not say how to authenticate"),
        ("Bearer realm=\"\"", "not an address"),
    ];
    for (challenge, why) in challenges {
        let challenge = challenge.replace("THIEF", &at.to_string());
        let fake = FakeRegistry::start(move |_, _| {
            FakeResponse::status(401).with_header("www-authenticate", &challenge)
        })
        .await;
        let credentials = login(directory.path(), &fake.address.to_string());
        let registry = registry_with(&[&fake], credentials, limits());
        let said = pull(&registry, &fake.reference(":v1")).await.unwrap_err().to_string();
        assert!(said.contains(why) && !said.contains("hush"), "{said}");
    }
    assert!(thief.requests().is_empty());

    // Credentials that do not suffice are sent once for each attempt, and are not in the error.
    let fake = FakeRegistry::start(|_, _| {
        FakeResponse::Http(
            401,
            vec![("www-authenticate".to_owned(), "Basic realm=\"x\"".to_owned())],
            br#"{"errors":[{"code":"UNAUTHORIZED","message":"no\n\u001b[31mway"}]}"#.to_vec(),
        )
    })
    .await;
    let registry =
        registry_with(&[&fake], login(directory.path(), &fake.address.to_string()), limits());
    let said = pull(&registry, &fake.reference(":v1")).await.unwrap_err().to_string();
    assert!(
        said.contains("do not suffice")
            && said.contains("UNAUTHORIZED: no")
            && !said.contains(['\n', '\u{1b}']),
        "{said}"
    );
    assert_eq!(fake.requests().len(), 2);
    let said =
        pull(&registry_with(&[&fake], Credentials::none(), limits()), &fake.reference(":v1"))
            .await
            .unwrap_err();
    assert!(said.to_string().contains("--registry-config"), "{said}");
}

#[tokio::test]
async fn invalid_token_responses_are_rejected() {
    let cases: [Case; 6] = [
        (
            "no token",
            String::new,
            || FakeResponse::ok("application/json", "{}"),
            "no token in its answer",
        ),
        (
            "two lines",
            String::new,
            || FakeResponse::ok("application/json", r#"{"token": "a\r\nx: y"}"#),
            "no header can have",
        ),
        (
            "a large token",
            String::new,
            || {
                FakeResponse::ok(
                    "application/json",
                    format!("{{\"token\": \"{}\"}}", "x".repeat(100_000)),
                )
            },
            "no token in its answer",
        ),
        (
            "a large answer",
            String::new,
            || FakeResponse::ok("application/json", vec![b' '; 1 << 20]),
            "larger than",
        ),
        (
            "a redirect",
            String::new,
            || FakeResponse::status(302).with_header("location", "https://example.com/"),
            "302",
        ),
        ("a refusal", String::new, || FakeResponse::status(403), "403"),
    ];
    for (what, _, answer, why) in cases {
        let tokens = FakeRegistry::start(move |_, _| answer()).await;
        let realm = tokens.address;
        let challenge = format!("Bearer realm=\"http://{realm}/token\"");
        let fake = FakeRegistry::start(move |_, _| {
            FakeResponse::status(401).with_header("www-authenticate", &challenge)
        })
        .await;
        let registry = registry_with(&[&fake, &tokens], Credentials::none(), limits());
        let said = pull(&registry, &fake.reference(":v1")).await.unwrap_err().to_string();
        assert!(said.contains(why), "{what}: {said}");
    }
}

#[tokio::test]
async fn plain_http_registry_is_rejected_with_a_hint() {
    let fake =
        FakeRegistry::start(honest_except("/".to_owned(), || FakeResponse::status(500))).await;
    let said = pull(&registry_with(&[], Credentials::none(), limits()), &fake.reference(":v1"))
        .await
        .unwrap_err();
    assert!(said.to_string().contains("--registry-insecure"), "{said}");
    assert!(fake.requests().iter().all(|request| !request.path.starts_with("/v2")));
}

#[tokio::test]
async fn index_resolves_to_one_manifest() {
    let mut content = RegistryContent::default();
    let wasm = content.artifact("inner", COMPONENT);
    let entry = |digest: &Digest, architecture: &str| json!({"mediaType": MANIFEST_TYPE, "digest": digest.as_str(), "size": 100, "platform": {"architecture": architecture, "os": "linux"}});
    let index = |entries: &[serde_json::Value]| {
        json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})
            .to_string()
            .into_bytes()
    };
    let good = content.manifest(
        "good",
        INDEX_TYPE,
        &index(&[entry(&wasm, "wasm"), entry(&Digest::of(b"x"), "amd64")]),
    );
    content.manifest("nested", INDEX_TYPE, &index(&[entry(&good, "wasm")]));
    content.manifest("several", INDEX_TYPE, &index(&[entry(&wasm, "wasm"), entry(&wasm, "wasm")]));
    content.manifest("gone", INDEX_TYPE, &index(&[entry(&Digest::of(b"x"), "wasm")]));
    let fake = FakeRegistry::start(move |request, _| content.respond(&request.path)).await;
    let registry = registry(&fake, limits());
    let pulled = pull(&registry, &fake.reference(":good")).await.unwrap();
    assert_eq!((pulled.digest, pulled.component.as_slice()), (good, COMPONENT));
    for (tag, why) in
        [("nested", "an index within an index"), ("several", "several manifests"), ("gone", "404")]
    {
        let said =
            pull(&registry, &fake.reference(&format!(":{tag}"))).await.unwrap_err().to_string();
        assert!(said.contains(why), "{tag}: {said}");
    }
}

fn pem(key: &EcdsaKeyPair) -> String {
    let der = key.public_key().as_der().unwrap();
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        BASE64_STANDARD.encode(der.as_ref())
    )
}

/// A layer of a signature, as cosign writes it.
fn signed(content: &mut RegistryContent, key: &EcdsaKeyPair, digest: &Digest) -> serde_json::Value {
    let payload = json!({
        "critical": {
            "identity": {"docker-reference": "ghcr.io/team/policy"},
            "image": {"docker-manifest-digest": digest.as_str()},
            "type": "cosign container image signature",
        },
        "optional": null,
    })
    .to_string();
    let signature = key.sign(&SystemRandom::new(), payload.as_bytes()).unwrap();
    json!({
        "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
        "digest": content.blob(payload.as_bytes()).as_str(),
        "size": payload.len(),
        "annotations": {"dev.cosignproject.cosign/signature": BASE64_STANDARD.encode(signature)},
    })
}

fn sign(content: &mut RegistryContent, digest: &Digest, layers: &[serde_json::Value]) {
    let config = json!({"mediaType": "application/vnd.oci.image.config.v1+json", "digest": Digest::of(b"{}").as_str(), "size": 2});
    let manifest =
        json!({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": layers});
    let tag = format!("{}.sig", digest.as_str().replace(':', "-"));
    content.manifest(&tag, MANIFEST_TYPE, manifest.to_string().as_bytes());
}

#[tokio::test]
async fn only_components_signed_by_the_key_are_pulled() {
    let generate = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let (ours, theirs) = (generate(), generate());
    let keys = PublicKeys::parse(&pem(&ours)).unwrap();
    let stranger = Digest::of(b"another artifact");
    let cases: Vec<(&str, MakeLayers<'_>, Option<&str>)> = vec![
        ("by our key", Box::new(|c, d| Some(vec![signed(c, &ours, d)])), None),
        (
            "by theirs and ours",
            Box::new(|c, d| Some(vec![signed(c, &theirs, d), signed(c, &ours, d)])),
            None,
        ),
        ("not at all", Box::new(|_, _| None), Some("no signature: there is no tag sha256-")),
        ("by nobody", Box::new(|_, _| Some(vec![])), Some("none of its signatures")),
        ("by theirs", Box::new(|c, d| Some(vec![signed(c, &theirs, d)])), Some("not by this key")),
        (
            "another artifact",
            Box::new(|c, _| Some(vec![signed(c, &ours, &stranger)])),
            Some("signed for"),
        ),
        (
            "our signature on another text",
            Box::new(|c, d| {
                let (mut one, other) = (signed(c, &ours, d), signed(c, &ours, &stranger));
                one["annotations"] = other["annotations"].clone();
                Some(vec![one])
            }),
            Some("not by this key"),
        ),
        (
            "behind too many others",
            Box::new(|c, d| {
                let mut all = vec![signed(c, &theirs, d); 32];
                all.push(signed(c, &ours, d));
                Some(all)
            }),
            Some("none of its signatures"),
        ),
        (
            "without a key",
            Box::new(|c, d| {
                let mut one = signed(c, &theirs, d);
                one["annotations"]["dev.sigstore.cosign/certificate"] =
                    json!("-----BEGIN CERTIFICATE-----");
                Some(vec![one])
            }),
            Some("opgate verifies keys only"),
        ),
        (
            "with a large text",
            Box::new(|c, d| {
                let mut one = signed(c, &ours, d);
                one["size"] = json!(1 << 30);
                Some(vec![one])
            }),
            Some("more than 65536"),
        ),
    ];
    for (what, layers, why) in cases {
        let mut content = RegistryContent::default();
        let digest = content.artifact("v1", COMPONENT);
        if let Some(layers) = layers(&mut content, &digest) {
            sign(&mut content, &digest, &layers);
        }
        let fake = FakeRegistry::start(move |request, _| content.respond(&request.path)).await;
        let registry = registry(&fake, limits());
        for reference in [fake.reference(":v1"), fake.reference(&format!("@{digest}"))] {
            let reference = Reference::parse(&reference).unwrap();
            let pulled = registry.pull(&reference, Some(&keys), None).await;
            let verified = registry.verify(&reference, &keys).await;
            match why {
                None => assert_eq!(
                    (pulled.unwrap().digest, verified.unwrap()),
                    (digest.clone(), digest.clone()),
                    "{what}"
                ),
                Some(why) => {
                    for said in [pulled.unwrap_err().to_string(), verified.unwrap_err().to_string()]
                    {
                        assert!(said.contains(why), "{what}: {said}");
                    }
                    let is_layer = |request: &RecordedRequest| request.path == layer_path();
                    assert!(
                        !fake.requests().iter().any(is_layer),
                        "{what}: nothing is fetched that is not signed"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn component_pulled_by_digest_is_served_from_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let other = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let keys = PublicKeys::parse(&pem(&key)).unwrap();
    let mut content = RegistryContent::default();
    let digest = content.artifact("v1", COMPONENT);
    let layers = [signed(&mut content, &key, &digest)];
    sign(&mut content, &digest, &layers);
    // It is there for a while, and then it is not.
    let fake = FakeRegistry::start(move |request, number| {
        if number < 4 { content.respond(&request.path) } else { FakeResponse::status(503) }
    })
    .await;
    let registry = registry(&fake, limits());
    let tag = Reference::parse(&fake.reference(":v1")).unwrap();
    let pulled = registry.pull(&tag, Some(&keys), Some(&cache)).await.unwrap();
    assert_eq!(fake.requests().len(), 4, "manifest, signature, its text, layer");
    let pinned = tag.with_digest(&pulled.digest);
    let again = registry.pull(&pinned, Some(&keys), Some(&cache)).await.unwrap();
    assert_eq!(again.component, COMPONENT);
    assert_eq!(fake.requests().len(), 4);
    // A tag is asked for, and another key has not signed.
    assert!(registry.pull(&tag, Some(&keys), Some(&cache)).await.is_err());
    let others = PublicKeys::parse(&pem(&other)).unwrap();
    assert!(registry.pull(&pinned, Some(&others), Some(&cache)).await.is_err());
    // What was changed on disk is not used.
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        std::fs::write(entry.unwrap().path(), b"changed").unwrap();
    }
    assert!(registry.pull(&pinned, None, Some(&cache)).await.is_err());
}

#[tokio::test]
async fn proxy_is_used_only_for_configured_hosts() {
    let mut content = RegistryContent::default();
    content.artifact("v1", COMPONENT);
    let proxy = FakeRegistry::start(move |request, _| {
        assert_eq!(
            request.headers["proxy-authorization"],
            format!("Basic {}", BASE64_STANDARD.encode("bob:hush"))
        );
        match request.path.strip_prefix("http://registry.example.com") {
            Some(path) => content.respond(path),
            None => FakeResponse::status(403),
        }
    })
    .await;
    let at = format!("http://bob:hush@{}", proxy.address);
    let with = |proxies: Proxies| {
        let insecure = BTreeSet::from(["registry.example.com".to_owned()]);
        let limits = Limits { max_attempts: 1, ..limits() };
        Registry::new(Options {
            credentials: Credentials::none(),
            ca: None,
            insecure,
            proxies,
            limits,
        })
        .unwrap()
    };
    let registry = with(Proxies::all(&at, "other.example.com"));
    let pulled = pull(&registry, "oci://registry.example.com/team/policy:v1").await.unwrap();
    assert_eq!(pulled.component, COMPONENT);
    // TLS goes through it: it is asked for a way, and says no.
    let said =
        pull(&registry, "oci://secure.example.com/team/policy:v1").await.unwrap_err().to_string();
    assert!(
        said.contains("403")
            && said.contains("CONNECT secure.example.com:443")
            && !said.contains("hush"),
        "{said}"
    );
    let said = pull(&with(Proxies::all("socks5://127.0.0.1:1", "")), "oci://a.example.com/b:v1")
        .await
        .unwrap_err();
    assert!(said.to_string().contains("not spoken to over http"), "{said}");
}
