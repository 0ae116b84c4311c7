//! The scripts that install and start programs, with programs that are small scripts themselves: the action, the component,
//! and the package for npm.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::{env, thread};

use super::tests::contents;
use super::*;

const VERSION: &str = "0.1.0";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn release() -> Release<'static> {
    Release {
        version: VERSION,
        description: "what it is",
        licenses: "Apache-2.0",
        homepage: None,
        time: 1_700_000_000,
    }
}

/// All files of a release whose programs are this script for sh.
fn release_of(script: impl Fn(&Platform) -> String) -> Vec<Package> {
    let mut contents = contents();
    for (platform, content) in &mut contents {
        content.program = format!("#!/bin/sh\n{}\n", script(platform)).into_bytes();
    }
    files(&release(), &contents, Some("https://git.example.com/a/b")).unwrap()
}

/// Whether a program that a script needs is installed.
fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Serves files by HTTP on the loopback interface, until the test ends; returns the address.
fn serve(files: Vec<Package>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            assert!(lines.any(|line| line.is_ok_and(|line| line.is_empty())), "{request}");
            let path = request.split(' ').nth(1).unwrap().trim_start_matches('/');
            let found = files.iter().find(|file| file.path == path);
            let (status, body) =
                found.map_or(("404 Not Found", &b""[..]), |it| ("200 OK", &it.bytes));
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).unwrap();
        }
    });
    address
}

/// With the digests, as a release is uploaded.
fn with_sums(mut files: Vec<Package>) -> Vec<Package> {
    let bytes = sums(&files).into_bytes();
    files.push(Package { path: SUMS.to_owned(), bytes });
    files
}

/// Runs the action's first step on a runner; the program is in the directory.
fn install(directory: &Path, runner: (&str, &str), variables: &[(&str, &str)]) -> Output {
    let mut bash = Command::new("bash");
    bash.arg(root().join("deploy/github-action/install.sh"));
    bash.env_clear().env("PATH", env::var_os("PATH").unwrap()).env("RUNNER_TEMP", directory);
    bash.env("RUNNER_OS", runner.0).env("RUNNER_ARCH", runner.1).env("OPGATE_VERSION", VERSION);
    bash.env("GITHUB_PATH", directory.join("path")).env("GITHUB_OUTPUT", directory.join("output"));
    bash.envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn each_runner_installs_the_archive_of_its_platform() {
    if !(has("bash") && has("curl")) {
        return;
    }
    let url = serve(with_sums(release_of(|platform| format!("echo $1 of {}", platform.triple))));
    let runners = [
        ("Linux", "X64", "x86_64-unknown-linux-musl"),
        ("Linux", "ARM64", "aarch64-unknown-linux-musl"),
        ("macOS", "X64", "x86_64-apple-darwin"),
        ("macOS", "ARM64", "aarch64-apple-darwin"),
        ("Windows", "X64", "x86_64-pc-windows-gnu"),
    ];
    for platform in PLATFORMS.iter().filter(|platform| platform.os != Os::LinuxGnu) {
        let Some((os, processor, triple)) = runners.iter().find(|it| it.2 == platform.triple)
        else {
            panic!("no runner has {}", platform.triple);
        };
        if platform.os == Os::Windows && Command::new("unzip").output().is_err() {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let output = install(directory.path(), (os, processor), &[("OPGATE_URL", &url)]);
        let (out, err) = (text_of(&output.stdout), text_of(&output.stderr));
        assert_eq!(
            (output.status.code(), out),
            (Some(0), format!("version of {triple}\n")),
            "{err}"
        );
        let home = directory.path().join(format!("opgate-bin/opgate-{VERSION}-{triple}"));
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("path"), format!("{}\n", home.display()));
        let program = home.join(platform.program_name());
        assert_eq!(read("output"), format!("path={}\n", program.display()));
    }
}

#[test]
fn installer_says_what_is_wrong() {
    if !(has("bash") && has("curl")) {
        return;
    }
    let files = release_of(|_| "echo installed".to_owned());
    let archive = "opgate-0.1.0-x86_64-unknown-linux-musl.tar.gz";
    let sum = digest(&files.iter().find(|file| file.path == archive).unwrap().bytes);
    let sum = sum.trim_start_matches("sha256:").to_uppercase();
    let other = Package { path: SUMS.to_owned(), bytes: b"00  another.tar.gz\n".to_vec() };
    let no_sum = serve(release_of(|_| String::new()).into_iter().chain([other]).collect());
    let url = serve(with_sums(files));
    let linux = ("Linux", "X64");
    for (runner, variables, message) in [
        (linux, &[("OPGATE_URL", url.as_str()), ("OPGATE_SHA256", sum.as_str())][..], ""),
        (linux, &[], "error: set the input url: "),
        (linux, &[("OPGATE_URL", &url), ("OPGATE_SHA256", "00")], " instead of 00\n"),
        (linux, &[("OPGATE_URL", &no_sum)], " instead of one in SHA256SUMS\n"),
        (
            linux,
            &[("OPGATE_URL", &url), ("OPGATE_VERSION", "9.9.9")],
            "opgate-9.9.9-x86_64-unknown-linux-musl.tar.gz cannot be downloaded: check the inputs version and url\n",
        ),
        (
            ("Windows", "ARM64"),
            &[("OPGATE_URL", &url)],
            "no opgate for this runner: Windows-ARM64\n",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let output = install(directory.path(), runner, variables);
        let (out, err) = (text_of(&output.stdout), text_of(&output.stderr));
        let is_installed = message.is_empty();
        assert_eq!(
            output.status.code(),
            Some(if is_installed { 0 } else { 2 }),
            "{message}: {err}"
        );
        assert!(err.contains(message), "{message}: {err}");
        // What is not the archive is never run.
        assert_eq!(out, if is_installed { "installed\n" } else { "" }, "{message}");
    }
}

/// Words of the input become arguments as they are.
#[test]
#[cfg(unix)]
fn arguments_of_the_action_are_words() {
    use std::os::unix::fs::PermissionsExt as _;
    if !has("bash") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("opgate");
    fs::write(&program, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.path().display(), env::var("PATH").unwrap());
    for (arguments, status, expected) in [
        ("check -o github .", 7, "<check><-o><github><.>"),
        ("check\n  -q\n  bundle\n", 7, "<check><-q><bundle>"),
        ("check \"my bundle\" 'it is'", 7, "<check><my bundle><it is>"),
        ("--config=\"a b\".yaml \"it's\" ''", 7, "<--config=a b.yaml><it's><>"),
        ("a\\b $HOME `id` $(id) * ; id", 7, "<a\\b><$HOME><`id`><$(id)><*><;><id>"),
        ("", 0, ""),
        (" \n ", 0, ""),
        ("check 'bundle", 2, ""),
    ] {
        let mut bash = Command::new("bash");
        bash.arg(root().join("deploy/github-action/run.sh"));
        bash.env("PATH", &path).env("OPGATE_ARGUMENTS", arguments);
        let output = bash.output().unwrap();
        assert_eq!(text_of(&output.stdout), expected, "{arguments:?}");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// On the day of a release, these have to change with the version of the workspace.
#[test]
fn pipelines_install_the_version_of_this_source() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for path in ["deploy/github-action/action.yml", "deploy/gitlab/templates/check.yml"] {
        let text = read(path);
        let (_, input) = text.split_once("version:\n").unwrap();
        let default = input.lines().find_map(|line| line.trim().strip_prefix("default: "));
        assert_eq!(default, Some(version), "{path}");
    }
    // The component installs an archive of a platform, on each processor.
    let component = read("deploy/gitlab/templates/check.yml");
    let name = component.lines().find_map(|line| line.trim().strip_prefix("- name=")).unwrap();
    for platform in PLATFORMS.iter().filter(|platform| platform.os == Os::LinuxMusl) {
        let name = name.replace("$version", version).replace("$(uname -m)", platform.processor);
        assert_eq!(name, archive::stem(version, platform));
        assert_eq!(platform.archive_extension(), "tar.gz");
    }
    assert!(component.contains("\"$url/$name.tar.gz\""), "{component}");
    // So does `cargo binstall`, whose suffix of `tgz` is also `.tar.gz`.
    let manifest = read("host/opgate/Cargo.toml");
    for platform in &PLATFORMS {
        let suffix = format!(".{}", platform.archive_extension());
        let extension = if platform.os == Os::Windows { ".exe" } else { "" };
        let filled = |name: &str| {
            let line = manifest.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let line = line.trim_matches([' ', '=', '"']);
            let line = line.replace("{ repo }", "").replace("{ version }", version);
            let line =
                line.replace("{ target }", platform.triple).replace("{ archive-suffix }", &suffix);
            line.replace("{ bin }", "opgate").replace("{ binary-ext }", extension)
        };
        let archive = archive::file_name(version, platform);
        assert_eq!(filled("pkg-url"), format!("/releases/download/v{version}/{archive}"));
        let program = format!("{}/{}", archive::stem(version, platform), platform.program_name());
        assert_eq!(filled("bin-dir"), program);
    }
}

/// Nothing names an address that is not the one of this source.
#[test]
fn addresses_are_those_of_the_repository() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let manifest = read("host/opgate/Cargo.toml") + &read("Cargo.toml");
    let repository = manifest.lines().find_map(|line| line.strip_prefix("repository = \""));
    for path in [
        "deploy/github-action/action.yml",
        "deploy/github-action/install.sh",
        "deploy/gitlab/templates/check.yml",
    ] {
        let text = read(path);
        for rest in text.split("https://").skip(1) {
            let address = format!("https://{}", rest.lines().next().unwrap());
            let known = repository.is_some_and(|it| address.starts_with(it.trim_end_matches('"')));
            assert!(known, "{path}: {address}");
        }
    }
}

/// The released targets are those whose dependencies `cargo deny` checks.
#[test]
fn dependencies_of_all_platforms_are_checked() {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    for Platform { triple, .. } in &PLATFORMS {
        assert!(text.contains(&format!("    \"{triple}\",\n")), "deny.toml has no {triple}");
    }
}

/// Packages for npm, as npm installs them; none if there is no Node.js.
#[cfg(unix)]
struct Installed(tempfile::TempDir);

#[cfg(unix)]
impl Installed {
    fn of(script: &str, platforms: &[&str]) -> Option<Self> {
        if !(has("node") && has("tar")) {
            return None;
        }
        let installed = Self(tempfile::tempdir().unwrap());
        let files = release_of(|_| script.to_owned());
        let unpack = |package: &str, directory: &str| {
            let path = format!("npm/{package}-{VERSION}.tgz");
            let package = &files.iter().find(|file| file.path == path).unwrap().bytes;
            let directory = installed.0.path().join("node_modules").join(directory);
            fs::create_dir_all(&directory).unwrap();
            let mut tar = Command::new("tar");
            tar.args(["-xz", "--strip-components=1"]).current_dir(&directory).stdin(Stdio::piped());
            let mut tar = tar.spawn().unwrap();
            tar.stdin.take().unwrap().write_all(package).unwrap();
            assert!(tar.wait().unwrap().success());
        };
        unpack("opgate", "opgate");
        for platform in platforms {
            unpack(&format!("opgate-cli-{platform}"), &format!("@opgate/cli-{platform}"));
        }
        Some(installed)
    }

    fn node(&self) -> Command {
        let mut node = Command::new("node");
        node.current_dir(self.0.path()).stdin(Stdio::null());
        node
    }

    fn start(&self) -> Child {
        let mut node = self.node();
        node.arg("node_modules/opgate/bin/opgate.js").args(["check", "a b"]);
        node.stdout(Stdio::piped()).spawn().unwrap()
    }
}

/// Names of packages for this machine: for glibc, and for musl.
#[cfg(all(unix, target_os = "linux"))]
fn of_this_machine() -> [&'static str; 2] {
    if cfg!(target_arch = "aarch64") {
        ["linux-arm64", "linux-arm64-musl"]
    } else {
        ["linux-x64", "linux-x64-musl"]
    }
}

#[test]
#[cfg(target_os = "linux")]
fn npm_package_runs_the_program_that_npm_has_installed() {
    for platform in of_this_machine() {
        let Some(installed) = Installed::of("echo \"$#: $1 $2\"; exit 4", &[platform]) else {
            return;
        };
        let output = installed.start().wait_with_output().unwrap();
        assert_eq!(text_of(&output.stdout), "2: check a b\n");
        assert_eq!(output.status.code(), Some(4), "{platform}");
    }
}

#[test]
#[cfg(unix)]
fn npm_package_says_which_package_is_missing() {
    let Some(installed) = Installed::of("echo", &[]) else { return };
    for (platform, arch, expected) in [
        ("darwin", "arm64", "the package @opgate/cli-darwin-arm64 is missing"),
        ("darwin", "arm64", "npm install @opgate/cli-darwin-arm64@0.1.0"),
        ("win32", "x64", "the package @opgate/cli-win32-x64 is missing"),
        ("win32", "arm64", "there is no opgate for win32-arm64; Node.js for x64 runs"),
        ("freebsd", "x64", "there is no opgate for freebsd-x64; there is one for darwin-arm64, "),
    ] {
        let script = format!(
            "for (const [name, value] of [['platform', '{platform}'], ['arch', '{arch}']]) \
             Object.defineProperty(process, name, {{ value }}); require('opgate/bin/opgate.js')"
        );
        let output = installed.node().args(["-e", &script]).output().unwrap();
        let err = text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{err}");
        assert!(err.starts_with("error: ") && err.contains(expected), "{err}");
    }
}

/// A signal to the package is one to the program, and its end is that of the program.
#[test]
#[cfg(target_os = "linux")]
fn npm_package_hands_signals_on() {
    // The second one has no handler, and dies.
    for (handler, code, rest) in [("trap 'echo ended; exit 5' TERM", 5, "ended\n"), (":", 143, "")]
    {
        // The program waits for a signal, without another process that would survive it.
        let script = format!("{handler}\nmkfifo wait\necho ready\nread -r line <>wait");
        let Some(installed) = Installed::of(&script, &of_this_machine()[..1]) else { return };
        let mut child = installed.start();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let pid = child.id().to_string();
        assert!(Command::new("sh").args(["-c", "kill -TERM $0", &pid]).status().unwrap().success());
        // Also at the end of the program: it has the output open.
        let mut found = String::new();
        output.read_to_string(&mut found).unwrap();
        assert_eq!(found, rest);
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}
