//! The policies that serve, and the way of a review through them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::{ConfigErrors, Configuration};
use super::decision::{Builder, Finding};
use super::load::{Loaded, load};
use super::{Decision, Mode, OnError, Overload, Policy, PolicyFault, lane};
use crate::engine::{Engine, EngineError, Fault, Inputs, Pool};
use crate::review::Review;

/// A policy whose component cannot be used.
#[derive(Debug)]
pub struct Broken {
    /// Its name.
    pub name: String,
    /// Where its component came from.
    pub source: String,
    /// Its mode.
    pub mode: Mode,
    /// What its faults do.
    pub on_error: OnError,
    /// What is wrong with it.
    pub error: String,
}

impl Broken {
    /// Nobody knows which requests the policy would have wanted to see: it fails on all of them.
    fn fault(&self) -> PolicyFault {
        PolicyFault { policy: self.name.clone(), cause: self.error.clone(), class: "load" }
    }

    /// Whether the administrator wants requests to fail rather than pass without this policy.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.mode == Mode::Enforce && self.on_error != OnError::Allow
    }
}

/// Why there is no set of policies.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The configuration does not fit the policies.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// wasmtime does not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Why a review got no decision.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// Too much to do.
    #[error(transparent)]
    Overload(#[from] Overload),
    /// There is no such policy.
    #[error("there is no policy {name:?}{hint}")]
    NoPolicy {
        /// What was asked for.
        name: String,
        /// What is near.
        hint: String,
    },
}

/// What is told about each call of a policy, for metrics.
pub trait Observer {
    /// A policy was called, and has given a verdict or failed.
    fn called(&self, policy: &Policy, took: Duration);
}

/// Nobody listens.
impl Observer for () {
    fn called(&self, _: &Policy, _: Duration) {}
}

/// The policies that serve.
#[derive(Debug)]
pub struct Set {
    policies: Vec<Arc<Policy>>,
    broken: Vec<Broken>,
    off: Vec<String>,
    engine: Arc<Engine>,
}

impl Set {
    /// Loads the policies of a configuration. `queue` is how many calls may wait for each.
    ///
    /// # Errors
    /// Where the configuration does not fit, or there is no engine. A policy whose component cannot
    /// be used is no error: the others serve, and it is among [`Set::broken`].
    pub fn load(
        configuration: &Configuration,
        cache: Option<PathBuf>,
        queue: usize,
    ) -> Result<Self, SetError> {
        let instances = configuration.policies.iter().map(|p| p.limits.concurrency).sum();
        let memory = configuration.policies.iter().map(|p| p.limits.memory).max();
        let memory = memory.unwrap_or(1 << 20);
        let engine = Arc::new(Engine::start(Pool { instances, memory }, cache)?);
        let mut set = Self { policies: Vec::new(), broken: Vec::new(), off: Vec::new(), engine };
        let mut errors = ConfigErrors::default();
        for config in &configuration.policies {
            if config.mode == Mode::Off {
                set.off.push(config.name.clone());
                continue;
            }
            match load(&set.engine, configuration, config, queue) {
                Ok(Loaded::Policy(policy)) => set.policies.push(Arc::new(*policy)),
                Ok(Loaded::Broken(error)) => {
                    set.broken.push(Broken {
                        name: config.name.clone(),
                        source: config.module.to_string(),
                        mode: config.mode,
                        on_error: config.on_error,
                        error,
                    });
                }
                Err(wrong) => errors.extend(wrong),
            }
        }
        Ok(errors.or(set)?)
    }

    /// Policies that serve, in the order of the configuration.
    #[must_use]
    pub fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// Policies that cannot.
    #[must_use]
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// The engine under all of them.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Decides a review: asks every policy that matches, or only the one that is named.
    ///
    /// # Errors
    /// Where there is too much to do, or there is no policy of the name. A policy that fails, or cannot
    /// be used, is no error but part of the decision.
    pub async fn decide(
        &self,
        review: &Review<'_>,
        only: Option<&str>,
        deadline: Instant,
        observer: &impl Observer,
    ) -> Result<Decision, DecideError> {
        let mut builder = Builder::default();
        let asked = match only.map(|name| self.find(name)).transpose()? {
            None => {
                for broken in &self.broken {
                    builder.fault(broken.fault(), broken.mode, broken.on_error);
                }
                self.policies.as_slice()
            }
            Some(Found::Policy(policy)) => std::slice::from_ref(policy),
            Some(Found::Off) => &[],
            Some(Found::Broken(broken)) => {
                builder.fault(broken.fault(), broken.mode, broken.on_error);
                &[]
            }
        };
        let matching: Vec<_> = asked.iter().filter(|p| p.matches(review)).collect();
        if matching.is_empty() {
            return Ok(builder.build());
        }
        let inputs = Arc::new(review.inputs());
        let mut overload = None;
        let calls = matching.iter().map(|policy| ask(policy, &inputs, deadline, observer));
        for (policy, answer) in matching.iter().zip(futures_util::future::join_all(calls).await) {
            match answer {
                Ok(Ok(finding)) => builder.finding(policy, finding),
                Err(error) if policy.can_block() => overload = overload.or(Some(error)),
                Err(error) => {
                    let fault = fault_of(policy, error.to_string(), "overload");
                    builder.fault(fault, policy.mode, policy.on_error);
                }
                Ok(Err(fault)) => {
                    let fault = fault_of(policy, fault.to_string(), fault.class());
                    builder.fault(fault, policy.mode, policy.on_error);
                }
            }
        }
        let decision = builder.build();
        match overload {
            // What one policy denies is denied whatever the others would say.
            Some(error) if decision.denial.is_none() => Err(error.into()),
            _ => Ok(decision),
        }
    }

    fn find(&self, name: &str) -> Result<Found<'_>, DecideError> {
        if let Some(policy) = self.policies.iter().find(|p| p.name == name) {
            return Ok(Found::Policy(policy));
        }
        if let Some(broken) = self.broken.iter().find(|b| b.name == name) {
            return Ok(Found::Broken(broken));
        }
        if self.off.iter().any(|off| off == name) {
            return Ok(Found::Off);
        }
        let hint = crate::text::hint(name, self.policies.iter().map(|p| p.name.as_str()));
        Err(DecideError::NoPolicy { name: crate::text::one_line(name, 64), hint })
    }
}

fn fault_of(policy: &Policy, cause: String, class: &'static str) -> PolicyFault {
    PolicyFault { policy: policy.name.clone(), cause, class }
}

/// A policy by its name.
enum Found<'s> {
    Policy(&'s Arc<Policy>),
    Broken(&'s Broken),
    /// Configured, but not asked: everything is allowed, as it is at `/validate`.
    Off,
}

/// Asks one policy, writes its log lines, and takes over its verdict.
async fn ask(
    policy: &Arc<Policy>,
    inputs: &Arc<Inputs>,
    deadline: Instant,
    observer: &impl Observer,
) -> Result<Result<Finding, Fault>, Overload> {
    let started = Instant::now();
    let call = lane::validate(policy, inputs, deadline).await?;
    super::load::log(&policy.name, &call.log);
    let finding = call.result.and_then(|verdict| Finding::of(policy, verdict));
    observer.called(policy, started.elapsed());
    if let Err(fault) = &finding {
        policy.note_error(fault.to_string());
        let uid = crate::text::one_line(&inputs.request.uid, 128);
        tracing::error!(policy = policy.name, uid, cause = %fault, "no verdict");
    }
    Ok(finding)
}
