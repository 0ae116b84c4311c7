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

/// How a language measures the lines that its tests run.
pub(super) struct Coverage {
    pub(super) command: &'static [&'static str],
    /// Fails if the tool is missing.
    pub(super) probe: Option<&'static [&'static str]>,
    /// How to get the tool.
    pub(super) install: &'static str,
}

/// This program.
pub(super) const OPGATE: Tool =
    Tool { name: "opgate", programs: &["opgate"], install: "add its directory to PATH" };
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

    /// Returns the steps in a new directory, with the commands. `archive` has the SDK for C, unless it is unpacked;
    /// `opgate` is this program for a shell.
    pub(super) fn steps(
        self,
        component: &str,
        archive: Option<String>,
        manifest: &str,
        opgate: &str,
    ) -> Vec<(&'static str, String)> {
        let mut steps: Vec<(&'static str, String)> = Vec::new();
        let prepare = match self {
            Self::Rust => Some("rustup target add wasm32-unknown-unknown".to_owned()),
            Self::Typescript | Self::Javascript => Some("npm install".to_owned()),
            Self::Python => Some(
                "python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt"
                    .to_owned(),
            ),
            // A release has the SDK, a registry does not. A checkout needs no step.
            Self::C => archive.map(|archive| format!("tar xzf {archive}")),
        };
        steps.extend(prepare.map(|command| ("prepare", command)));
        let build = self.build_command().join(" ");
        let is_named = self == Self::C && opgate != OPGATE.name;
        steps.push(("build", if is_named { format!("{build} OPGATE={opgate}") } else { build }));
        if self == Self::Rust {
            let module = component.replace(".component.wasm", ".wasm");
            steps.push(("pack", format!("{opgate} policy pack {TARGET_DIRECTORY}/{module}")));
        }
        steps.push(("test", format!("{opgate} policy test .")));
        steps.push(("check", format!("{opgate} check --config opgate.yaml {manifest}")));
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

    /// Returns how the language measures the lines that its tests run, if a tool does.
    pub(super) fn coverage(self) -> Option<Coverage> {
        Some(match self {
            Self::Rust => Coverage {
                command: &["cargo", "llvm-cov", "test"],
                probe: Some(&["cargo", "llvm-cov", "--version"]),
                install: "install it with `cargo install cargo-llvm-cov`",
            },
            Self::Typescript | Self::Javascript => {
                Coverage { command: &["npm", "test", "--", "--coverage"], probe: None, install: "" }
            }
            Self::Python => Coverage {
                command: &["python", "-m", "pytest", "--cov", "--cov-report=term-missing"],
                probe: Some(&["python", "-c", "import pytest_cov"]),
                install: "install it with `python -m pip install pytest-cov`",
            },
            Self::C => return None,
        })
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
