//! Images of a small program that is none.

use std::collections::BTreeMap;
use std::process::Stdio;

use super::*;

/// The head of an ELF file with one program header.
fn program(arch: Arch, kind: u8) -> Vec<u8> {
    let mut program = vec![0; 64 + 56];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    program[18..20].copy_from_slice(&arch.machine().to_le_bytes());
    program[32] = 64;
    program[54] = 56;
    program[56] = 1;
    program[64] = kind;
    program
}

const LOADED: u8 = 1;
const INTERPRETER: u8 = 3;

fn about() -> ImageMetadata {
    ImageMetadata {
        version: "0.1.0".to_owned(),
        description: "what it is".to_owned(),
        licenses: "Apache-2.0".to_owned(),
        repository: None,
        revision: Some("abc".to_owned()),
        time: OffsetDateTime::from_unix_timestamp(1_700_000_000).unwrap(),
        target: PathBuf::new(),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn pictured(program: &[u8]) -> Layout {
    let images: Vec<_> = [Arch::Amd64, Arch::Arm64]
        .into_iter()
        .map(|arch| {
            let mut program = program.to_vec();
            program[18..20].copy_from_slice(&arch.machine().to_le_bytes());
            let sbom = format!("{{\"for\":\"{arch}\"}}").into_bytes();
            image(root(), &about(), arch, &program, sbom, b"notices").unwrap()
        })
        .collect();
    layout(&about(), &images, None).unwrap()
}

/// Reads all files below a directory.
fn read(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(read(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
}

/// A layout on disk.
struct Written(tempfile::TempDir);

impl Written {
    fn of(layout: &Layout) -> Self {
        let directory = tempfile::tempdir().unwrap();
        layout.write(directory.path()).unwrap();
        Self(directory)
    }

    fn json(&self, descriptor: &Value) -> Value {
        serde_json::from_slice(&self.blob(descriptor)).unwrap()
    }

    /// Returns a blob, which must match its descriptor.
    fn blob(&self, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap();
        let path = self.0.path().join("blobs").join(digest.replace(':', "/"));
        let bytes = fs::read(path).unwrap();
        assert_eq!(super::digest(&bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }

    fn index(&self) -> Value {
        serde_json::from_slice(&fs::read(self.0.path().join("index.json")).unwrap()).unwrap()
    }
}

#[test]
fn the_same_program_gives_the_same_image() {
    let program = program(Arch::Amd64, LOADED);
    let (one, two) = (Written::of(&pictured(&program)), Written::of(&pictured(&program)));
    let files = |written: &Written| -> Vec<_> {
        let files = read(written.0.path()).into_iter();
        files
            .map(|(path, bytes)| (path.strip_prefix(&written.0).unwrap().to_owned(), bytes))
            .collect()
    };
    assert_eq!(files(&one), files(&two));
    let mut other = program;
    other.push(1);
    assert_ne!(files(&one), files(&Written::of(&pictured(&other))));
}

#[test]
fn image_index_describes_the_image() {
    let layout = pictured(&program(Arch::Amd64, LOADED));
    let written = Written::of(&layout);
    let top = written.index();
    assert_eq!(top["manifests"].as_array().unwrap().len(), 1);
    let top = &top["manifests"][0];
    assert_eq!(top["annotations"]["org.opencontainers.image.ref.name"], "0.1.0");
    assert_eq!(top["digest"], layout.digest);
    let index = written.json(top);
    let manifests = index["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 4);
    for (number, arch) in ["amd64", "arm64"].into_iter().enumerate() {
        let descriptor = &manifests[number];
        assert_eq!(
            descriptor["platform"],
            serde_json::json!({"architecture": arch, "os": "linux"})
        );
        let manifest = written.json(descriptor);
        let configuration = written.json(&manifest["config"]);
        assert_eq!(configuration["architecture"], arch);
        assert_eq!(configuration["os"], "linux");
        assert_eq!(configuration["created"], "2023-11-14T22:13:20Z");
        assert_eq!(configuration["config"]["User"], "65532:65532");
        assert_eq!(configuration["config"]["Entrypoint"], serde_json::json!(["/opgate"]));
        let labels = serde_json::json!({
            "org.opencontainers.image.created": "2023-11-14T22:13:20Z",
            "org.opencontainers.image.description": "what it is",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.revision": "abc",
            "org.opencontainers.image.title": "opgate",
            "org.opencontainers.image.version": "0.1.0",
        });
        assert_eq!(configuration["config"]["Labels"], labels);
        assert_eq!(manifest["annotations"], labels);
        let layer = written.blob(&manifest["layers"][0]);
        let tar = unzip(&layer);
        assert_eq!(configuration["rootfs"]["diff_ids"][0], digest(&tar));
        // The SBOM belongs to it, and is never taken for a platform.
        let descriptor = &manifests[number + 2];
        assert_eq!(descriptor["platform"]["os"], "unknown");
        let artifact = written.json(descriptor);
        assert_eq!(artifact["artifactType"], "application/vnd.cyclonedx+json");
        assert_eq!(artifact["subject"]["digest"], manifests[number]["digest"]);
        assert_eq!(written.json(&artifact["layers"][0])["for"], arch);
        assert_eq!(written.blob(&artifact["config"]), b"{}");
    }
}

/// Without the head of gzip and its sum.
fn unzip(zipped: &[u8]) -> Vec<u8> {
    assert_eq!(zipped[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3]);
    let (deflated, end) = zipped[10..].split_at(zipped.len() - 18);
    let bytes = miniz_oxide::inflate::decompress_to_vec(deflated).unwrap();
    let sum = crc32fast::hash(&bytes).to_le_bytes();
    let size = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    assert_eq!(end, [sum, size].concat());
    bytes
}

#[test]
fn image_contains_only_the_program_and_its_files() {
    let program = program(Arch::Amd64, LOADED);
    let layout = pictured(&program);
    let written = Written::of(&layout);
    let index = written.json(&written.index()["manifests"][0]);
    let manifest = written.json(&index["manifests"][0]);
    let mut tar = tempfile::tempfile().unwrap();
    let layer = written.blob(&manifest["layers"][0]);
    std::io::Write::write_all(&mut tar, &layer).unwrap();
    std::io::Seek::rewind(&mut tar).unwrap();
    // GNU tar is everywhere, and is not what wrote it.
    let arguments = ["-tvz", "--full-time", "--numeric-owner", "--utc"];
    let output = Command::new("tar").args(arguments).stdin(Stdio::from(tar)).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let found: Vec<_> = rows.iter().map(|row| (row[0], row[5])).collect();
    let expected = [
        ("drwxr-xr-x", "etc/"),
        ("-rw-r--r--", "etc/group"),
        ("-rw-r--r--", "etc/nsswitch.conf"),
        ("-rw-r--r--", "etc/passwd"),
        ("drwxr-xr-x", "etc/ssl/"),
        ("drwxr-xr-x", "etc/ssl/certs/"),
        ("-rw-r--r--", "etc/ssl/certs/ca-certificates.crt"),
        ("-rwxr-xr-x", "opgate"),
        ("drwxrwxrwt", "tmp/"),
        ("drwxr-xr-x", "usr/"),
        ("drwxr-xr-x", "usr/share/"),
        ("drwxr-xr-x", "usr/share/doc/"),
        ("drwxr-xr-x", "usr/share/doc/opgate/"),
        ("-rw-r--r--", "usr/share/doc/opgate/LICENSE"),
        ("-rw-r--r--", "usr/share/doc/opgate/THIRD-PARTY-NOTICES.txt"),
        ("-rw-r--r--", "usr/share/doc/opgate/opgate.cdx.json"),
    ];
    assert_eq!(found, expected);
    for row in &rows {
        assert_eq!(row[1], "0/0", "the owner of {row:?}");
        assert_eq!(row[3..5], ["2023-11-14", "22:13:20"], "the time of {row:?}");
    }
    let size = |name| rows.iter().find(|row| row[5] == name).unwrap()[2];
    assert_eq!(size("opgate"), program.len().to_string());
    // More than a hundred certificates.
    assert!(size("etc/ssl/certs/ca-certificates.crt").parse::<usize>().unwrap() > 100_000);
}

#[test]
fn programs_that_the_image_cannot_run_are_refused() {
    let image = |program: &[u8]| image(root(), &about(), Arch::Amd64, program, Vec::new(), b"");
    image(&program(Arch::Amd64, LOADED)).unwrap();
    for (program, why) in [
        (program(Arch::Amd64, INTERPRETER), "the program for amd64 is linked dynamically"),
        (program(Arch::Arm64, LOADED), "the program for amd64 is for another processor: 183"),
        (b"#!/bin/sh\n".to_vec(), "the program for amd64 is no ELF file of 64 bits"),
        (
            program(Arch::Amd64, LOADED)[..60].to_vec(),
            "the program for amd64 is no ELF file of 64 bits",
        ),
    ] {
        let found = image(&program).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(found.unwrap_err(), why);
    }
}

#[test]
fn an_image_that_is_too_large_is_refused() {
    let image = |size| Image {
        arch: Arch::Amd64,
        layer: Layer { diff_id: String::new(), bytes: vec![0; size] },
        sbom: Vec::new(),
    };
    layout(&about(), &[image(MAX_COMPRESSED_BYTES - 10_000)], None).unwrap();
    let error = layout(&about(), &[image(MAX_COMPRESSED_BYTES)], None).unwrap_err().to_string();
    assert_eq!(error, "the image for amd64 has 30.1 MB compressed: the bound is 30.0 MB");
}

#[test]
fn only_an_earlier_layout_is_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let layout = pictured(&program(Arch::Amd64, LOADED));
    layout.write(directory.path()).unwrap();
    layout.write(directory.path()).unwrap();
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("precious"), "x").unwrap();
    let error = layout.write(other.path()).unwrap_err().to_string();
    assert!(error.ends_with("is not empty, and no OCI layout: name another directory"), "{error}");
    assert!(other.path().join("precious").exists());
}

/// For the platform of this machine, whose C library is where a compiler is.
#[test]
fn sbom_lists_every_component_of_the_program() {
    let Some(arch) = [Arch::Amd64, Arch::Arm64].into_iter().find(|arch| arch.is_native()) else {
        return;
    };
    if arch.libc().is_err() {
        return;
    }
    let made = || sbom::of(root(), &about(), arch).unwrap();
    let bytes = made();
    assert_eq!(bytes, made());
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        (&document["bomFormat"], &document["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    let main = &document["metadata"]["component"];
    assert_eq!(main["name"], "opgate");
    let components: BTreeMap<&str, &Value> = document["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|component| (component["name"].as_str().unwrap(), component))
        .collect();
    // The host, what is in C, an embedded policy and what only policies use, and what is no crate.
    for name in [
        "wasmtime",
        "tokio",
        "aws-lc-sys",
        "opgate-server",
        "opgate-plain-bundle",
        "wit-bindgen",
        "webpki-root-certs",
        "rust-std",
        "glibc",
    ] {
        assert!(components.contains_key(name), "{name}");
    }
    // Crates that run during the build, and crates for tests only.
    for name in
        ["serde_derive", "syn", "cc", "opgate-pack", "opgate-tests", "criterion", "proptest"]
    {
        assert!(!components.contains_key(name), "{name}");
    }
    let wasmtime = components["wasmtime"];
    let purl = format!("pkg:cargo/wasmtime@{}", wasmtime["version"].as_str().unwrap());
    assert_eq!(wasmtime["purl"], purl);
    assert_eq!(wasmtime["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert_eq!(components["opgate-server"]["purl"], Value::Null, "it is in no registry");
    // Everything is there once, and because of something.
    let all = document["components"].as_array().unwrap().iter();
    let mut references: Vec<&str> = all.map(|c| c["bom-ref"].as_str().unwrap()).collect();
    references.sort_unstable();
    let dependencies = document["dependencies"].as_array().unwrap();
    let mut needed: Vec<&str> = dependencies
        .iter()
        .flat_map(|of| of["dependsOn"].as_array().unwrap())
        .map(|on| on.as_str().unwrap())
        .collect();
    needed.sort_unstable();
    needed.dedup();
    assert_eq!(references, needed);
}

/// Checks the image with the program that copies images to registries, if it is installed. The copy must have
/// the same digest.
#[test]
fn skopeo_reads_the_image_and_copies_it_as_it_is() {
    let layout = pictured(&program(Arch::Amd64, LOADED));
    let written = Written::of(&layout);
    for (arch, tag) in [("amd64", ""), ("arm64", ":0.1.0")] {
        let image = format!("oci:{}{tag}", written.0.path().display());
        let arguments = ["--override-os", "linux", "--override-arch", arch, "inspect", &image];
        let Ok(output) = Command::new("skopeo").args(arguments).output() else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["Architecture"], arch);
        assert_eq!(found["Labels"]["org.opencontainers.image.title"], "opgate");
    }
    let (from, to) =
        (format!("oci:{}:0.1.0", written.0.path().display()), tempfile::tempdir().unwrap());
    let copy = format!("oci:{}:0.1.0", to.path().display());
    let arguments = ["copy", "--quiet", "--all", "--preserve-digests", &from, &copy];
    let Ok(output) = Command::new("skopeo").args(arguments).output() else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let copied = Written(to);
    assert_eq!(copied.index()["manifests"][0]["digest"], layout.digest);
}
