//! Releases of small programs that are none.

use super::program::Version;
use super::sample_programs::{elf, for_platform, pe};
use super::*;

const URL: &str = "https://git.example.com/a/b/v0.1.0";

fn release() -> Release<'static> {
    Release {
        version: "0.1.0",
        description: "what it is",
        licenses: "Apache-2.0",
        homepage: Some("https://git.example.com/a/b"),
        time: 1_700_000_000,
    }
}

pub(super) fn contents() -> Vec<(&'static Platform, Content)> {
    let of = |platform: &'static Platform| {
        let documents = Documents {
            completions: vec![("opgate.bash".to_owned(), b"complete".to_vec())],
            man_pages: vec![("opgate.1".to_owned(), b".TH opgate 1".to_vec())],
        };
        let program = for_platform(platform);
        let requirements = platform.check(&program, false).unwrap();
        let content = Content {
            program,
            requirements,
            sbom: b"{}".to_vec(),
            licence: b"licence".to_vec(),
            notices: b"notices".to_vec(),
            readme: b"# opgate".to_vec(),
            documents,
        };
        (platform, content)
    };
    PLATFORMS.iter().map(of).collect()
}

fn all_files() -> Vec<Package> {
    files(&release(), &contents(), Some(URL)).unwrap()
}

fn text<'f>(files: &'f [Package], path: &str) -> &'f str {
    let found = files.iter().find(|file| file.path == path).unwrap();
    std::str::from_utf8(&found.bytes).unwrap()
}

#[test]
fn release_has_an_archive_and_packages_for_each_platform() {
    let files = all_files();
    let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "deb/opgate_0.1.0_amd64.deb",
            "deb/opgate_0.1.0_arm64.deb",
            "homebrew/opgate.rb",
            "krew/opgate.yaml",
            "nix/flake.nix",
            "npm/opgate-0.1.0.tgz",
            "npm/opgate-cli-darwin-arm64-0.1.0.tgz",
            "npm/opgate-cli-darwin-x64-0.1.0.tgz",
            "npm/opgate-cli-linux-arm64-0.1.0.tgz",
            "npm/opgate-cli-linux-arm64-musl-0.1.0.tgz",
            "npm/opgate-cli-linux-x64-0.1.0.tgz",
            "npm/opgate-cli-linux-x64-musl-0.1.0.tgz",
            "npm/opgate-cli-win32-x64-0.1.0.tgz",
            "opgate-0.1.0-aarch64-apple-darwin.tar.gz",
            "opgate-0.1.0-aarch64-unknown-linux-gnu.tar.gz",
            "opgate-0.1.0-aarch64-unknown-linux-musl.tar.gz",
            "opgate-0.1.0-x86_64-apple-darwin.tar.gz",
            "opgate-0.1.0-x86_64-pc-windows-gnu.zip",
            "opgate-0.1.0-x86_64-unknown-linux-gnu.tar.gz",
            "opgate-0.1.0-x86_64-unknown-linux-musl.tar.gz",
            "pypi/opgate-0.1.0-py3-none-macosx_11_0_arm64.whl",
            "pypi/opgate-0.1.0-py3-none-macosx_11_0_x86_64.whl",
            "pypi/opgate-0.1.0-py3-none-manylinux_2_28_aarch64.whl",
            "pypi/opgate-0.1.0-py3-none-manylinux_2_28_x86_64.whl",
            "pypi/opgate-0.1.0-py3-none-musllinux_1_2_aarch64.whl",
            "pypi/opgate-0.1.0-py3-none-musllinux_1_2_x86_64.whl",
            "pypi/opgate-0.1.0-py3-none-win_amd64.whl",
        ]
    );
}

#[test]
fn the_same_programs_give_the_same_files() {
    assert_eq!(all_files(), all_files());
}

/// Each manifest names the archives by the digests that they have.
#[test]
fn manifests_name_the_digests_of_the_archives() {
    let files = all_files();
    let sum = |triple: &str, extension: &str| {
        let path = format!("opgate-0.1.0-{triple}.{extension}");
        let found = files.iter().find(|file| file.path == path).unwrap();
        digest(&found.bytes).trim_start_matches("sha256:").to_owned()
    };
    let everywhere = [
        sum("x86_64-unknown-linux-musl", "tar.gz"),
        sum("aarch64-unknown-linux-musl", "tar.gz"),
        sum("x86_64-apple-darwin", "tar.gz"),
        sum("aarch64-apple-darwin", "tar.gz"),
    ];
    for path in ["homebrew/opgate.rb", "krew/opgate.yaml", "nix/flake.nix"] {
        let text = text(&files, path);
        for sum in &everywhere {
            assert_eq!(text.matches(sum.as_str()).count(), 1, "{path}: {text}");
        }
        assert!(!text.contains(&sum("x86_64-unknown-linux-gnu", "tar.gz")), "{path}");
        assert!(text.contains("https://git.example.com/a/b/v0.1.0/opgate-0.1.0-"), "{path}");
        assert!(!text.contains('@'), "{path}: {text}");
    }
    let krew = text(&files, "krew/opgate.yaml");
    assert!(
        krew.contains(&sum("x86_64-pc-windows-gnu", "zip")) && krew.contains("bin: opgate.exe")
    );
    // Without static programs, Linux has the others.
    let few: Vec<_> = contents().into_iter().filter(|(it, _)| it.os == Os::LinuxGnu).collect();
    let formula = self::files(&release(), &few, Some(URL)).unwrap();
    let formula = text(&formula, "homebrew/opgate.rb").to_owned();
    assert!(formula.contains("x86_64-unknown-linux-gnu") && !formula.contains("on_macos"));
}

#[test]
fn programs_for_other_platforms_are_refused() {
    for platform in &PLATFORMS {
        platform.check(&for_platform(platform), false).unwrap();
        for other in PLATFORMS.iter().filter(|other| *other != platform) {
            let error = platform.check(&for_platform(other), true).unwrap_err().to_string();
            assert!(error.contains(platform.triple), "{error}");
        }
        for broken in [&b""[..], b"\x7fELF", b"MZ", &[0; 64]] {
            assert!(platform.check(broken, true).is_err());
        }
    }
}

/// What the headers of a program say is what counts.
#[test]
fn programs_that_need_more_are_refused() {
    let error = |triple: &str, program: &[u8]| {
        let checked = platform::find(triple).unwrap().check(program, false);
        format!("{:#}", checked.unwrap_err())
    };
    let gnu = "aarch64-unknown-linux-gnu";
    let machine = object::elf::EM_AARCH64;
    for (needs, found) in [
        (Some(("libc.so.6", "GLIBC_2.34")), "it needs glibc 2.34, and releases run with 2.28"),
        (Some(("libz.so.1", "ZLIB_1.2")), "it needs the library libz.so.1"),
        (Some(("libc.so.6", "OTHER_1")), "it names no version of glibc"),
        (None, "it is linked statically"),
    ] {
        let error = error(gnu, &elf(machine, needs));
        assert!(error.contains(gnu) && error.contains(found), "{error}");
    }
    let error = error("x86_64-pc-windows-gnu", &pe("libgcc_s_seh-1.dll"));
    assert!(error.ends_with("it needs the library libgcc_s_seh-1.dll"), "{error}");
}

/// As `.ci/packages` packs the program of this machine.
#[test]
fn packages_name_what_their_program_needs() {
    let platform = platform::find("x86_64-unknown-linux-gnu").unwrap();
    let mut contents = contents();
    let (_, content) = contents.iter_mut().find(|(it, _)| *it == platform).unwrap();
    content.requirements.glibc = Some(Version(2, 36));
    content.requirements.libraries.push("libgcc_s.so.1".to_owned());
    let files = files(&release(), &contents, Some(URL)).unwrap();
    let has = |path: &str| files.iter().any(|file| file.path == path);
    assert!(has("pypi/opgate-0.1.0-py3-none-manylinux_2_36_x86_64.whl"));
    assert!(has("pypi/opgate-0.1.0-py3-none-manylinux_2_28_aarch64.whl"));
    let depends = |path: &str| {
        let package = &files.iter().find(|file| file.path == path).unwrap().bytes;
        let control = member(package, "control.tar.gz");
        let control = String::from_utf8(unzip(control)).unwrap();
        control.lines().find(|line| line.starts_with("Depends: ")).unwrap().to_owned()
    };
    assert_eq!(depends("deb/opgate_0.1.0_amd64.deb"), "Depends: libc6 (>= 2.36), libgcc-s1");
    assert_eq!(depends("deb/opgate_0.1.0_arm64.deb"), "Depends: libc6 (>= 2.28)");
}

/// A member of an archive of `ar`.
fn member<'f>(archive: &'f [u8], name: &str) -> &'f [u8] {
    let mut rest = archive.strip_prefix(b"!<arch>\n").unwrap();
    loop {
        let (head, content) = rest.split_at(60);
        let size: usize = std::str::from_utf8(&head[48..58]).unwrap().trim().parse().unwrap();
        if head.starts_with(name.as_bytes()) {
            return &content[..size];
        }
        rest = &content[size + size % 2..];
    }
}

/// Without the head of gzip and its sum.
fn unzip(zipped: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec(&zipped[10..zipped.len() - 8]).unwrap()
}

#[test]
fn packages_without_an_address_of_the_archives_are_refused() {
    let mut metadata = ImageMetadata {
        version: "0.1.0".to_owned(),
        description: String::new(),
        licenses: String::new(),
        repository: None,
        revision: None,
        time: time::OffsetDateTime::UNIX_EPOCH,
        target: PathBuf::new(),
    };
    let mut options = DistOptions::default();
    assert_eq!(archives_url(&options, &metadata).unwrap(), None);
    options.packages = true;
    let error = archives_url(&options, &metadata).unwrap_err().to_string();
    assert!(error.starts_with("--packages needs --url"), "{error}");
    options.url = Some("https://x");
    assert_eq!(archives_url(&options, &metadata).unwrap().unwrap(), "https://x");
    options.url = None;
    metadata.repository = Some("https://git.example.com/a/b".to_owned());
    assert_eq!(
        archives_url(&options, &metadata).unwrap().unwrap(),
        "https://git.example.com/a/b/releases/download/v0.1.0"
    );
}

/// A source without an address is named by no package, rather than by a placeholder.
#[test]
fn packages_name_only_a_source_that_is_known() {
    let unknown = Release { homepage: None, ..release() };
    for (release, is_named) in [(release(), true), (unknown, false)] {
        let files = files(&release, &contents(), Some("https://files.example.org")).unwrap();
        for path in ["homebrew/opgate.rb", "krew/opgate.yaml", "nix/flake.nix"] {
            let text = text(&files, path);
            assert_eq!(text.contains("https://git.example.com/a/b"), is_named, "{path}: {text}");
            assert_eq!(text.contains("homepage"), is_named, "{path}: {text}");
            assert!(!text.contains('@') && !text.contains("\n\n\n"), "{path}: {text}");
        }
    }
}

#[test]
fn pre_releases_have_the_names_of_each_package_manager() {
    let release = Release { version: "0.2.0-rc.1", ..release() };
    let files = files(&release, &contents(), Some(URL)).unwrap();
    for path in [
        "opgate-0.2.0-rc.1-x86_64-unknown-linux-gnu.tar.gz",
        "npm/opgate-0.2.0-rc.1.tgz",
        "deb/opgate_0.2.0~rc.1_amd64.deb",
        "pypi/opgate-0.2.0rc1-py3-none-win_amd64.whl",
    ] {
        assert!(files.iter().any(|file| file.path == path), "{path}");
    }
}

#[test]
fn options_select_platforms() {
    let triples = |options: &DistOptions<'_>| {
        select(options).map(|found| found.iter().map(|it| it.triple).collect::<Vec<_>>())
    };
    assert_eq!(triples(&DistOptions::default()).unwrap().len(), PLATFORMS.len());
    let (mac, musl) = ("aarch64-apple-darwin", "x86_64-unknown-linux-musl");
    let options = DistOptions {
        targets: vec!["x86_64-unknown-linux-musl,aarch64-apple-darwin"],
        programs: vec![(mac, "a")],
        ..DistOptions::default()
    };
    assert_eq!(triples(&options).unwrap(), [mac, musl]);
    let unknown = DistOptions { targets: vec!["sparc"], ..DistOptions::default() };
    let error = triples(&unknown).unwrap_err().to_string();
    assert!(error.starts_with("sparc is no platform") && error.contains(mac), "{error}");
}

#[test]
fn only_earlier_files_are_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let files = [Package { path: "npm/a.tgz".to_owned(), bytes: b"a".to_vec() }];
    let output = directory.path().join("out");
    ensure_own(&output).unwrap();
    write(&output, &files).unwrap();
    ensure_own(&output).unwrap();
    let sums = fs::read_to_string(output.join(SUMS)).unwrap();
    assert_eq!(
        sums,
        "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  npm/a.tgz\n"
    );
    fs::remove_file(output.join(SUMS)).unwrap();
    assert!(ensure_own(&output).is_err());
}
