//! The languages of policies: how opgate detects, builds and tests a directory, and the tools for it.

use std::path::{Path, PathBuf};

/// A language that has a template and an SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Language {
    /// With cargo
    Rust,
    /// With npm
    #[value(alias = "ts")]
    Typescript,
    /// With npm
    #[value(alias = "js")]
    Javascript,
    /// With pip
    #[value(alias = "py")]
    Python,
    /// With make and clang
    C,
}

/// A program that a language needs.
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Names under which systems have it.
    programs: &'static [&'static str],
    pub(super) install: &'static str,
}

impl Tool {
    /// Returns its path, as a shell would find it. The tool is not started.
    pub(super) fn find(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let directories: Vec<_> = std::env::split_paths(&path).collect();
        let all =
            self.programs.iter().flat_map(|name| directories.iter().map(move |f| f.join(name)));
        all.into_iter().find(|path| path.is_file())
    }
}

const CARGO: Tool = Tool {
    name: "cargo",
    programs: &["cargo"],
    install: "install Rust with rustup, https://rustup.rs",
};
const RUSTUP: Tool = Tool {
    name: "rustup",
    programs: &["rustup"],
    install: "it adds the target wasm32-unknown-unknown, https://rustup.rs",
};
const NODE: Tool = Tool {
    name: "node",
    programs: &["node", "nodejs"],
    install: "install Node.js 20 or newer, https://nodejs.org",
};
const NPM: Tool =
    Tool { name: "npm", programs: &["npm"], install: "it comes with Node.js, https://nodejs.org" };
const PYTHON: Tool = Tool {
    name: "python3",
    programs: &["python3", "python"],
    install: "install Python 3.11 or newer, https://www.python.org",
};
const MAKE: Tool = Tool { name: "make", programs: &["make", "gmake"], install: "install GNU make" };
const CLANG: Tool = Tool {
    name: "clang",
    programs: &["clang", "clang-14", "clang-15", "clang-16", "clang-17", "clang-18", "clang-19"],
    install: "install clang 14 or newer",
};
const LLD: Tool = Tool {
    name: "wasm-ld",
    programs: &["wasm-ld", "wasm-ld-14", "wasm-ld-15", "wasm-ld-16", "wasm-ld-17", "wasm-ld-18"],
    install: "install lld, of the same version as clang",
};

impl Language {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Typescript => "typescript",
            Self::Javascript => "javascript",
            Self::Python => "python",
            Self::C => "c",
        }
    }

    /// Returns the tools that it needs.
    pub(super) fn tools(self) -> &'static [Tool] {
        match self {
            Self::Rust => &[CARGO, RUSTUP],
            Self::Typescript | Self::Javascript => &[NODE, NPM],
            Self::Python => &[PYTHON],
            Self::C => &[MAKE, CLANG, LLD],
        }
    }

    /// Returns the steps in a new directory, with the commands.
    pub(super) fn steps(self, component: &str, sdk: &str) -> Vec<(&'static str, String)> {
        let mut steps: Vec<(&'static str, String)> = Vec::new();
        let prepare = match self {
            Self::Rust => Some("rustup target add wasm32-unknown-unknown"),
            Self::Typescript | Self::Javascript => Some("npm install"),
            Self::Python => Some(
                "python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt",
            ),
            Self::C => None,
        };
        steps.extend(prepare.map(|command| ("prepare", command.to_owned())));
        if self == Self::C {
            // The SDK is not in a registry: its release has it.
            steps.push(("prepare", format!("tar xzf opgate-policy-c-{sdk}.tar.gz")));
        }
        steps.push(("build", self.build_command().join(" ")));
        if self == Self::Rust {
            let module = component.replace(".component.wasm", ".wasm");
            steps.push(("pack", format!("opgate policy pack {TARGET_DIRECTORY}/{module}")));
        }
        steps.push(("test", "opgate policy test .".to_owned()));
        steps.push(("check", "opgate check --config opgate.yaml pod.yaml".to_owned()));
        steps
    }

    /// Returns the command that builds a directory.
    pub(super) fn build_command(self) -> &'static [&'static str] {
        match self {
            // In a workspace, the target directory is outside the package: `module` in opgate.yaml is below
            // this one.
            Self::Rust => &[
                "cargo",
                "build",
                "--release",
                "--target",
                "wasm32-unknown-unknown",
                "--target-dir",
                "target",
            ],
            Self::Typescript | Self::Javascript => &["npm", "run", "build"],
            Self::Python => &["python", "-m", "opgate_policy", "build"],
            Self::C => &["make"],
        }
    }

    /// Returns the command with which the language tests itself.
    pub(super) fn test_command(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["cargo", "test"],
            Self::Typescript | Self::Javascript => &["npm", "test"],
            Self::Python => &["python", "-m", "pytest"],
            Self::C => &["make", "test"],
        }
    }

    /// Returns the program of a command: for Python the one of the directory's virtual environment, if it has
    /// one.
    pub(super) fn program(directory: &Path, name: &str) -> PathBuf {
        let own = directory.join(".venv/bin").join(name);
        match name {
            "python" if own.is_file() => std::path::absolute(&own).unwrap_or(own),
            "python" => PathBuf::from("python3"),
            name => PathBuf::from(name),
        }
    }

    /// Detects the language of a source directory by its build file.
    pub(super) fn detect(directory: &Path) -> Option<Self> {
        let has = |name: &str| directory.join(name).is_file();
        if has("Cargo.toml") {
            Some(Self::Rust)
        } else if has("package.json") {
            Some(if has("tsconfig.json") { Self::Typescript } else { Self::Javascript })
        } else if has("pyproject.toml") {
            Some(Self::Python)
        } else if has("Makefile") || has("makefile") || has("GNUmakefile") {
            Some(Self::C)
        } else {
            None
        }
    }
}

/// Directory of modules that cargo builds.
const TARGET_DIRECTORY: &str = "target/wasm32-unknown-unknown/release";
