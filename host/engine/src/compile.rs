//! Selects the process in which components from files and registries are compiled.

use std::sync::Arc;

use opgate_system::{Image, Key};

use super::{LoadError, TARGET, settings};
use crate::subprocess::{Job, WorkerError, WorkerProgram};

/// The process in which components are compiled.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// In this process, because the caller wrote the component or does not need isolation.
    #[default]
    InProcess,
    /// In subprocesses with limits, because the component is not trusted.
    Subprocess(Arc<WorkerProgram>),
}

impl Compiler {
    /// In subprocesses of this binary, which share this many bytes of memory.
    ///
    /// # Errors
    /// If the system does not return the path of the binary.
    pub fn in_subprocess(memory: usize) -> std::io::Result<Self> {
        Ok(Self::Subprocess(Arc::new(WorkerProgram::current(memory)?)))
    }

    /// In subprocesses of another binary of opgate.
    #[must_use]
    pub fn in_subprocess_of(binary: std::path::PathBuf, memory: usize) -> Self {
        Self::Subprocess(Arc::new(WorkerProgram::at(binary, memory)))
    }

    /// Compiles a component for an engine with these settings. `purpose` identifies the image.
    pub(super) fn compile(
        &self,
        engine: &wasmtime::Engine,
        large_address_space: bool,
        purpose: &[u8],
        component: &[u8],
    ) -> Result<Image, LoadError> {
        match self {
            Self::InProcess => Image::compile(engine, component).map_err(|e| unusable_error(&e)),
            Self::Subprocess(program) => {
                // A seal for this one exchange: the loaded image is the one that the child
                // compiled from this component, and nothing else came through the pipe.
                let mut secret = [0; 32];
                aws_lc_rs::rand::fill(&mut secret)
                    .map_err(|_| LoadError::NotCompiled("no randomness".to_owned()))?;
                let parts =
                    [&[u8::from(large_address_space)], secret.as_slice(), purpose, component];
                let sealed = program
                    .run(Job::compile(component), &parts)
                    .map_err(|why| LoadError::NotCompiled(why.to_string()))?;
                Image::open(&Key::new(&secret), purpose, sealed)
                    .map_err(|e| LoadError::NotCompiled(e.to_string()))
            }
        }
    }
}

pub(super) fn unusable_error(error: &wasmtime::Error) -> LoadError {
    let texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    LoadError::Unusable(opgate_text::one_line(&texts.join(": "), 512))
}

/// The error and its causes, outermost first. `{:#}` and `chain` of wasmtime's error leave out the
/// causes of errors from other crates.
pub(super) fn causes(
    error: &wasmtime::Error,
) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let outermost: &(dyn std::error::Error + 'static) = error.as_ref();
    std::iter::successors(Some(outermost), |cause| cause.source())
}

/// The work of a child for [`Job::Compile`] and [`Job::CompileLarge`].
///
/// # Errors
/// The error of the compiler.
pub fn run_compile_job(parts: &[Vec<u8>]) -> Result<Vec<u8>, WorkerError> {
    let [large_address_space, secret, purpose, component] = parts else {
        return Err(WorkerError("no component".to_owned()));
    };
    let secret: &[u8; 32] =
        secret.as_slice().try_into().map_err(|_| WorkerError("no key".to_owned()))?;
    let text =
        |error: wasmtime::Error| WorkerError(opgate_text::one_line(&format!("{error:#}"), 512));
    let config = settings::config(TARGET, *large_address_space == [1]).map_err(text)?;
    let engine = wasmtime::Engine::new(&config).map_err(text)?;
    let image = Image::compile(&engine, component).map_err(text)?;
    Ok(image.seal(&Key::new(secret), purpose))
}
