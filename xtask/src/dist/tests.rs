//! Releases of small programs that are none.

use super::*;

/// The head of a program for a platform.
fn program(platform: &Platform) -> Vec<u8> {
    let is_arm = platform.processor == "aarch64";
    let mut program = vec![0; 128];
    match platform.os {
        Os::LinuxGnu | Os::LinuxMusl => {
            program[..6].copy_from_slice(b"\x7fELF\x02\x01");
            program[18] = if is_arm { 183 } else { 62 };
        }
        Os::Mac => {
            program[..4].copy_from_slice(b"\xcf\xfa\xed\xfe");
            program[4..8].copy_from_slice(if is_arm { b"\x0c\0\0\x01" } else { b"\x07\0\0\x01" });
        }
        Os::Windows => {
            program[0x3c] = 0x40;
            program[0x40..0x46].copy_from_slice(b"PE\0\0\x64\x86");
        }
    }
    program
}

fn release() -> Release<'static> {
    Release {
        version: "0.1.0",
        description: "what it is",
        licenses: "Apache-2.0",
        homepage: "https://git.example.com/a/b".to_owned(),
        url: "https://git.example.com/a/b/v0.1.0".to_owned(),
        time: 1_700_000_000,
    }
}

fn contents() -> Vec<(&'static Platform, Content)> {
    let of = |platform: &'static Platform| {
        let documents = Documents {
            completions: vec![("opgate.bash".to_owned(), b"complete".to_vec())],
            man_pages: vec![("opgate.1".to_owned(), b".TH opgate 1".to_vec())],
        };
        let (sbom, licence, readme) = (b"{}".to_vec(), b"licence".to_vec(), b"# opgate".to_vec());
        (platform, Content { program: program(platform), sbom, licence, readme, documents })
    };
    PLATFORMS.iter().map(of).collect()
}

fn all_files() -> Vec<Package> {
    files(&release(), &contents(), true).unwrap()
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
    let formula = self::files(&release(), &few, true).unwrap();
    let formula = text(&formula, "homebrew/opgate.rb").to_owned();
    assert!(formula.contains("x86_64-unknown-linux-gnu") && !formula.contains("on_macos"));
}

#[test]
fn programs_for_other_platforms_are_refused() {
    for platform in &PLATFORMS {
        platform.check(&program(platform)).unwrap();
        for other in PLATFORMS.iter().filter(|other| {
            let of = |it: &Platform| (it.npm_fields().0, it.processor);
            of(other) != of(platform)
        }) {
            let error = platform.check(&program(other)).unwrap_err().to_string();
            assert!(error.contains(platform.triple), "{error}");
        }
        for broken in [&b""[..], b"\x7fELF", b"MZ", &[0; 64]] {
            assert!(platform.check(broken).is_err());
        }
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
