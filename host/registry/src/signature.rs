//! Signatures of cosign with keys: the tag `sha256-….sig` names an artifact with a layer for each signature. The layer is the signed
//! text, which names the digest; its annotation has the signature. Verification needs no other server.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    VerificationAlgorithm,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use crate::client::Session;
use crate::content::fetch_blob;
use crate::manifest::{ACCEPTED_TYPES, MAX_MANIFEST_BYTES, Manifest};
use crate::{Cache, Digest, Error, Reference, Repository};

/// The reason why keys are invalid, or a signature is not by one of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignatureError(String);

/// The type of a layer with a signed text.
const PAYLOAD_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with its signature.
const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// The annotation with a certificate, if no key was used.
const CERTIFICATE_ANNOTATION: &str = "dev.sigstore.cosign/certificate";
/// The type in a signed text.
const SIGNATURE_TYPE: &str = "cosign container image signature";

/// Maximum number of signatures of an artifact that opgate verifies.
const MAX_SIGNATURES: usize = 32;
/// Maximum bytes of a signed text.
const MAX_PAYLOAD_BYTES: usize = 64 << 10;
/// Maximum bytes of a signature in base64: RSA with 8192 bits has 1,368.
const MAX_SIGNATURE_BYTES: usize = 4 << 10;
/// Maximum number of keys.
const MAX_KEYS: usize = 8;

/// Public keys, one of which must have signed, and the repository of the signature.
#[derive(Debug)]
pub struct PublicKeys {
    keys: Vec<ParsedPublicKey>,
    /// The repository that the signed text must name; `None` allows any.
    repository: Option<Repository>,
}

/// A signature in the format of the cache.
#[derive(Debug, Serialize, Deserialize)]
struct CachedSignature {
    /// Base64.
    payload: String,
    /// Base64.
    signature: String,
}

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    r#type: String,
    identity: Option<Identity>,
}

#[derive(Deserialize)]
struct Identity {
    /// The name of the image when it was signed, with or without a tag.
    #[serde(rename = "docker-reference")]
    repository: Option<String>,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

impl PublicKeys {
    /// Parses PEM: one or several public keys, of ECDSA with P-256, Ed25519 or RSA with at least 2048 bits.
    ///
    /// # Errors
    /// If the text is invalid. The error quotes nothing of it, because it may be a private key.
    pub fn parse(pem: &str) -> Result<Self, SignatureError> {
        if pem.contains("PRIVATE KEY") {
            return Err(SignatureError("a private key is in it: name the public key alone (cosign.pub), and treat the private one as known".to_owned()));
        }
        let algorithms: [&'static dyn VerificationAlgorithm; 3] =
            [&ECDSA_P256_SHA256_ASN1, &ED25519, &RSA_PKCS1_2048_8192_SHA256];
        let mut keys = Vec::new();
        for key in SubjectPublicKeyInfoDer::pem_slice_iter(pem.as_bytes()) {
            let key = key.map_err(|_| SignatureError("not PEM".to_owned()))?;
            let mut parsed = algorithms
                .iter()
                .filter_map(|algorithm| ParsedPublicKey::new(*algorithm, key.as_ref()).ok());
            let parsed = parsed.next().ok_or_else(|| SignatureError("a key of another kind than ECDSA with P-256, Ed25519, or RSA with 2048 to 8192 bits".to_owned()))?;
            keys.push(parsed);
        }
        match keys.len() {
            0 => Err(SignatureError("no public key in it: it has -----BEGIN PUBLIC KEY-----, as `cosign public-key` prints it".to_owned())),
            1..=MAX_KEYS => Ok(Self { keys, repository: None }),
            many => Err(SignatureError(format!("{many} keys are more than the {MAX_KEYS} that are tried"))),
        }
    }

    /// Returns the keys for signatures under the name of this repository only, also if opgate pulls from another one.
    #[must_use]
    pub fn for_repository(self, repository: Option<Repository>) -> Self {
        Self { repository, ..self }
    }

    /// Checks that one of the keys signed a text that names this digest and the repository.
    fn verify(
        &self,
        payload: &[u8],
        signature: &[u8],
        digest: &Digest,
    ) -> Result<(), SignatureError> {
        if !self.keys.iter().any(|key| key.verify_sig(payload, signature).is_ok()) {
            return Err(SignatureError("not by this key".to_owned()));
        }
        // opgate parses the text only after it has verified the signature.
        let text: Payload = serde_json::from_slice(payload)
            .map_err(|error| SignatureError(format!("signed, but no text of cosign: {error}")))?;
        if text.critical.r#type != SIGNATURE_TYPE {
            return Err(SignatureError(format!(
                "signed as {:?}, not as {SIGNATURE_TYPE:?}",
                text.critical.r#type
            )));
        }
        if text.critical.image.digest != digest.as_str() {
            return Err(SignatureError(format!("signed for {:?}", text.critical.image.digest)));
        }
        let Some(wanted) = &self.repository else { return Ok(()) };
        let signed = text.critical.identity.and_then(|identity| identity.repository);
        match signed.filter(|signed| !signed.is_empty()) {
            Some(signed) if Repository::of_image(&signed).as_ref() == Some(wanted) => Ok(()),
            Some(signed) => Err(SignatureError(format!("signed as {signed:?}, not as {wanted}"))),
            None => Err(SignatureError(format!(
                "signed without the name of a repository, not as {wanted}"
            ))),
        }
    }

    fn verify_cached(
        &self,
        signed: &CachedSignature,
        digest: &Digest,
    ) -> Result<(), SignatureError> {
        let decode = |text: &str| {
            BASE64_STANDARD.decode(text).map_err(|_| SignatureError("not base64".to_owned()))
        };
        self.verify(&decode(&signed.payload)?, &decode(&signed.signature)?, digest)
    }
}

/// Finds a signature of a manifest by one of the keys: in the cache, or in the registry.
///
/// # Errors
/// If there is none; the error describes the signatures that exist.
pub(crate) async fn verify(
    session: &mut Session<'_>,
    reference: &Reference,
    digest: &Digest,
    keys: &PublicKeys,
    cache: Option<&Cache>,
) -> Result<(), Error> {
    let cached = cache.and_then(|cache| cache.signature(digest));
    if let Some(cached) =
        cached.and_then(|cached| serde_json::from_slice::<CachedSignature>(&cached).ok())
        && keys.verify_cached(&cached, digest).is_ok()
    {
        return Ok(());
    }
    let at = reference.with_tag(format!("{}.sig", digest.to_dashed()));
    let tag = at.tag().unwrap_or_default();
    let reply = session.get(&format!("manifests/{tag}"), ACCEPTED_TYPES, MAX_MANIFEST_BYTES).await;
    let reply = reply.map_err(|error| {
        if error.is_not_found() {
            Error::permanent(format!(
                "no signature: there is no tag {tag}; sign it with `cosign sign --key`, with --new-bundle-format=false from cosign 3 on (docs/registries.md)"
            ))
        } else {
            error.with_subject("signature")
        }
    })?;
    let manifest = Manifest::parse(&reply.body, Some(&reply.headers))
        .map_err(|error| error.with_subject(tag))?;
    let Manifest::Layers(layers) = manifest else {
        return Err(Error::permanent(format!("{tag}: an index is no signature")));
    };
    let mut last = String::new();
    let mut is_keyless = false;
    for layer in layers.iter().filter(|layer| layer.media_type == PAYLOAD_TYPE).take(MAX_SIGNATURES)
    {
        is_keyless |= layer.annotation(CERTIFICATE_ANNOTATION).is_some();
        let Some(signature) =
            layer.annotation(SIGNATURE_ANNOTATION).filter(|text| text.len() <= MAX_SIGNATURE_BYTES)
        else {
            continue;
        };
        let Ok(decoded) = BASE64_STANDARD.decode(signature.trim()) else { continue };
        let payload = fetch_blob(
            session,
            layer.digest()?,
            layer.size_within("signed text", MAX_PAYLOAD_BYTES)?,
        )
        .await?;
        match keys.verify(&payload, &decoded, digest) {
            Ok(()) => {
                let payload = BASE64_STANDARD.encode(&payload);
                let signature = BASE64_STANDARD.encode(&decoded);
                let signed = serde_json::to_vec(&CachedSignature { payload, signature });
                if let (Some(cache), Ok(signed)) = (cache, signed) {
                    cache.put_signature(digest, &signed);
                }
                return Ok(());
            }
            Err(why) => last = format!(" (the last one: {why})"),
        }
    }
    let keyless = if is_keyless {
        "; one is without a key, by a certificate of Sigstore: opgate verifies keys only"
    } else {
        ""
    };
    Err(Error::permanent(format!("none of its signatures is by a configured key{last}{keyless}")))
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer as _;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    };

    use super::*;

    fn pem(der: &[u8]) -> String {
        format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            BASE64_STANDARD.encode(der)
        )
    }

    fn text(digest: &Digest, kind: &str) -> String {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"ghcr.io/a"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{kind}"}},"optional":null}}"#
        )
    }

    #[test]
    fn signature_requires_the_key_and_the_digest() {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let other = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let sign =
            |text: &str| key.sign(&SystemRandom::new(), text.as_bytes()).unwrap().as_ref().to_vec();
        let keys = |pair: &EcdsaKeyPair| {
            PublicKeys::parse(&pem(pair.public_key().as_der().unwrap().as_ref())).unwrap()
        };
        let (digest, stranger) = (Digest::of(b"a"), Digest::of(b"b"));
        let good = text(&digest, SIGNATURE_TYPE);
        let signature = sign(&good);
        assert_eq!(keys(&key).verify(good.as_bytes(), &signature, &digest), Ok(()));
        assert_eq!(
            keys(&other).verify(good.as_bytes(), &signature, &digest),
            Err(SignatureError("not by this key".to_owned()))
        );
        let mut changed = signature.clone();
        changed[10] ^= 1;
        assert!(keys(&key).verify(good.as_bytes(), &changed, &digest).is_err());
        assert!(
            keys(&key)
                .verify(good.replace("ghcr", "quay").as_bytes(), &signature, &digest)
                .is_err()
        );
        assert!(keys(&key).verify(good.as_bytes(), &[], &digest).is_err());
        for (text, why) in [
            (text(&stranger, SIGNATURE_TYPE), "signed for"),
            (text(&digest, "atomic container signature"), "signed as"),
            ("{}".to_owned(), "no text of cosign"),
        ] {
            let said = keys(&key).verify(text.as_bytes(), &sign(&text), &digest).unwrap_err();
            assert!(said.to_string().contains(why), "{said}");
        }
        // The name of the repository counts if the keys require one.
        for (name, signed, is_good) in [
            ("ghcr.io/a", "ghcr.io/a", true),
            ("ghcr.io/a", "ghcr.io/a:1.0", true),
            ("docker.io/library/a", "index.docker.io/library/a", true),
            ("ghcr.io/a", "ghcr.io/b", false),
            ("ghcr.io/a", "ghcr.io/a/b", false),
            ("ghcr.io/a", "", false),
        ] {
            let text = good.replace("ghcr.io/a", signed);
            let bound = keys(&key).for_repository(Some(Repository::parse(name).unwrap()));
            let verified = bound.verify(text.as_bytes(), &sign(&text), &digest);
            assert_eq!(verified.is_ok(), is_good, "{name} {signed} {verified:?}");
            assert_eq!(keys(&key).verify(text.as_bytes(), &sign(&text), &digest), Ok(()));
        }
        let bound = keys(&key).for_repository(Some(Repository::parse("ghcr.io/a").unwrap()));
        let unnamed = good.replace(r#""identity":{"docker-reference":"ghcr.io/a"},"#, "");
        let said = bound.verify(unnamed.as_bytes(), &sign(&unnamed), &digest).unwrap_err();
        assert!(said.to_string().contains("without the name of a repository"), "{said}");
        // One of several keys is enough.
        let both =
            [&other, &key].map(|pair| pem(pair.public_key().as_der().unwrap().as_ref())).concat();
        assert_eq!(
            PublicKeys::parse(&both).unwrap().verify(good.as_bytes(), &signature, &digest),
            Ok(())
        );
    }

    #[test]
    fn other_key_types_verify() {
        let digest = Digest::of(b"a");
        let good = text(&digest, SIGNATURE_TYPE);
        let key = Ed25519KeyPair::generate().unwrap();
        let keys = PublicKeys::parse(&pem(key.public_key().as_der().unwrap().as_ref())).unwrap();
        assert_eq!(
            keys.verify(good.as_bytes(), key.sign(good.as_bytes()).as_ref(), &digest),
            Ok(())
        );
        let key = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(
            &aws_lc_rs::signature::RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            good.as_bytes(),
            &mut signature,
        )
        .unwrap();
        let public =
            aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(
                key.public_key(),
            )
            .unwrap();
        assert_eq!(
            PublicKeys::parse(&pem(public.as_ref())).unwrap().verify(
                good.as_bytes(),
                &signature,
                &digest
            ),
            Ok(())
        );
    }

    #[test]
    fn invalid_public_key_error_hides_its_content() {
        for (text, why) in [
            ("", "no public key"),
            ("hush", "no public key"),
            (
                "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nhush\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----",
                "private key",
            ),
            ("-----BEGIN PUBLIC KEY-----\naHVzaA==\n-----END PUBLIC KEY-----", "another kind"),
            ("-----BEGIN CERTIFICATE-----\naHVzaA==\n-----END CERTIFICATE-----", "no public key"),
        ] {
            let said = PublicKeys::parse(text).unwrap_err().to_string();
            assert!(said.contains(why) && !said.contains("hush"), "{text}: {said}");
        }
        let many = pem(&[]).repeat(9);
        assert!(PublicKeys::parse(&many).is_err());
    }
}
