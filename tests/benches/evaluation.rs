//! Evaluation in process, compared with a baseline:
//! `cargo bench -p opgate-tests --bench evaluation`
//!
//! The baseline is wasmtime with the same component, a pool of instances and nothing else: no
//! limits, no deadline, no log, no levels or modes. Both get the same two documents of one UPDATE
//! of a Bundle (2 KB each, as an API server sends them), parse the values that they read, and
//! create a fresh instance for each evaluation.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use opgate::builtin::BUILTINS;
use opgate::cluster;
use opgate::engine::{Budget, Engine, Limits, Pool, TimeLimit};
use opgate::policy::{Configuration, PolicySet, Profile, response};
use opgate::review::{self, Review};
use opgate_document::Document;
use testkit::recorded_review;
use wasmtime::component::{Component, HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

#[allow(warnings, clippy::all, clippy::pedantic, unsafe_code, reason = "generated code")]
mod bare {
    wasmtime::component::bindgen!({
        path: "../wit/policy.wit",
        world: "cluster-policy",
        with: {
            "opgate:policy/document.document": super::Handle,
            "opgate:policy/request.request": super::Asked,
        },
    });
}
use bare::opgate::policy::cluster::{ObjectName, Query, ReadError, SampleResult};
use bare::opgate::policy::document::Kind;
use bare::opgate::policy::types as bare_types;

/// What a guest has as a document.
pub struct Handle(Arc<Document>);

/// What a guest has as the request.
pub struct Asked;

struct State(ResourceTable);

impl bare_types::Host for State {}
impl bare::opgate::policy::log::Host for State {
    fn log(&mut self, _: bare::opgate::policy::log::Severity, _: String) {}
}
impl bare::opgate::policy::document::Host for State {}

/// Whole documents only: that is all the policy asks for in this case.
impl bare::opgate::policy::document::HostDocument for State {
    fn parse(&mut self, json: String) -> Result<Resource<Handle>, String> {
        Ok(self.0.push(Handle(Arc::new(Document::of(json).unwrap()))).unwrap())
    }
    fn kind(&mut self, of: Resource<Handle>, pointer: String) -> Kind {
        use opgate_document::Kind as Found;
        match self.0.get(&of).unwrap().0.get(&pointer).map(|v| v.kind()) {
            None => Kind::Missing,
            Some(Found::Null) => Kind::Null,
            Some(Found::Boolean) => Kind::Boolean,
            Some(Found::Number) => Kind::Number,
            Some(Found::Text) => Kind::Text,
            Some(Found::List) => Kind::List,
            Some(Found::Object) => Kind::Object,
        }
    }
    fn text(&mut self, of: Resource<Handle>, pointer: String) -> Option<String> {
        self.0.get(&of).unwrap().0.get(&pointer)?.text().map(str::to_owned)
    }
    fn boolean(&mut self, of: Resource<Handle>, pointer: String) -> Option<bool> {
        self.0.get(&of).unwrap().0.get(&pointer)?.boolean()
    }
    fn integer(&mut self, of: Resource<Handle>, pointer: String) -> Option<i64> {
        self.0.get(&of).unwrap().0.get(&pointer)?.integer()
    }
    fn number(&mut self, of: Resource<Handle>, pointer: String) -> Option<f64> {
        self.0.get(&of).unwrap().0.get(&pointer)?.number()
    }
    fn length(&mut self, of: Resource<Handle>, pointer: String) -> Option<u32> {
        self.0.get(&of).unwrap().0.get(&pointer)?.length()?.try_into().ok()
    }
    fn keys(&mut self, of: Resource<Handle>, pointer: String) -> Vec<String> {
        let members =
            self.0.get(&of).unwrap().0.get(&pointer).into_iter().flat_map(|v| v.members());
        members.map(|(name, _)| name.to_owned()).collect()
    }
    fn table(
        &mut self,
        _: Resource<Handle>,
        _: String,
        _: Vec<String>,
    ) -> bare::opgate::policy::document::Table {
        unimplemented!("not asked for")
    }
    fn row(
        &mut self,
        _: Resource<Handle>,
        _: String,
        _: Vec<String>,
    ) -> bare::opgate::policy::document::Table {
        unimplemented!("not asked for")
    }
    fn at(&mut self, _: Resource<Handle>, _: String) -> Option<Resource<Handle>> {
        unimplemented!("not asked for")
    }
    fn raw(&mut self, of: Resource<Handle>, pointer: String) -> Option<Vec<u8>> {
        Some(self.0.get(&of).unwrap().0.get(&pointer)?.raw().as_bytes().to_vec())
    }
    fn size(&mut self, of: Resource<Handle>, pointer: String) -> Option<u32> {
        self.0.get(&of).unwrap().0.get(&pointer)?.raw().len().try_into().ok()
    }
    fn equal(
        &mut self,
        of: Resource<Handle>,
        pointer: String,
        other: Resource<Handle>,
        other_pointer: String,
    ) -> bool {
        let left = self.0.get(&of).unwrap().0.get(&pointer);
        opgate_document::equal(left, self.0.get(&other).unwrap().0.get(&other_pointer))
    }
    fn drop(&mut self, of: Resource<Handle>) -> wasmtime::Result<()> {
        self.0.delete(of)?;
        Ok(())
    }
}

/// What is measured does not ask about the request.
impl bare::opgate::policy::request::Host for State {}
impl bare::opgate::policy::request::HostRequest for State {
    fn uid(&mut self, _: Resource<Asked>) -> String {
        unimplemented!("not asked for")
    }
    fn kind(&mut self, _: Resource<Asked>) -> bare_types::GroupVersionKind {
        unimplemented!("not asked for")
    }
    fn resource(&mut self, _: Resource<Asked>) -> bare_types::GroupVersionResource {
        unimplemented!("not asked for")
    }
    fn sub_resource(&mut self, _: Resource<Asked>) -> String {
        unimplemented!("not asked for")
    }
    fn name(&mut self, _: Resource<Asked>) -> String {
        unimplemented!("not asked for")
    }
    fn namespace(&mut self, _: Resource<Asked>) -> String {
        unimplemented!("not asked for")
    }
    fn user(&mut self, _: Resource<Asked>) -> bare_types::UserInfo {
        unimplemented!("not asked for")
    }
    fn dry_run(&mut self, _: Resource<Asked>) -> bool {
        unimplemented!("not asked for")
    }
    fn wants_fixes(&mut self, _: Resource<Asked>) -> bool {
        false
    }
    fn drop(&mut self, _: Resource<Asked>) -> wasmtime::Result<()> {
        Ok(())
    }
}

/// There is no cluster; what is measured does not ask for one.
impl bare::opgate::policy::cluster::Host for State {
    fn get(
        &mut self,
        _: bare_types::GroupVersionResource,
        _: String,
        _: String,
    ) -> Result<Option<Resource<Handle>>, ReadError> {
        Err(ReadError::NoCluster(String::new()))
    }
    fn list(
        &mut self,
        _: bare_types::GroupVersionResource,
        _: Query,
    ) -> Result<Vec<Resource<Handle>>, ReadError> {
        Err(ReadError::NoCluster(String::new()))
    }
    fn names(
        &mut self,
        _: bare_types::GroupVersionResource,
        _: Query,
    ) -> Result<Vec<ObjectName>, ReadError> {
        Err(ReadError::NoCluster(String::new()))
    }
    fn sample(
        &mut self,
        _: bare_types::GroupVersionResource,
        _: u32,
    ) -> Result<SampleResult, ReadError> {
        Err(ReadError::NoCluster(String::new()))
    }
}

/// Of Bundles, in the policy that is measured.
const BUNDLE_ROUTE: u64 = 0;

fn bare_policy() -> (wasmtime::Engine, bare::ClusterPolicyPre<State>) {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(16).total_core_instances(64).total_memories(16).total_tables(64);
    let mut config = Config::new();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    let engine = wasmtime::Engine::new(&config).unwrap();
    let component = Component::new(&engine, BUILTINS[0].component()).unwrap();
    let mut linker = Linker::new(&engine);
    bare::ClusterPolicy::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).unwrap();
    let pre = bare::ClusterPolicyPre::new(linker.instantiate_pre(&component).unwrap()).unwrap();
    (engine, pre)
}

fn benchmarks(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let set = PolicySet::load(
        &Configuration::builtin(Profile::default(), BUILTINS),
        None,
        64,
        cluster::ClusterOptions::of(cluster::Source::Absent),
    )
    .unwrap();
    let pool = Pool { instances: 8, memory: 32 << 20 };
    let engine = Arc::new(Engine::start(pool, None).unwrap());
    let builtin = &BUILTINS[0];
    let module =
        engine.load_builtin(|| builtin.component(), builtin.digest, &builtin.image).unwrap();
    let (bare_engine, bare) = bare_policy();
    let settings = Arc::new(Document::parse("{}").unwrap());
    for (what, file) in [("label", "008"), ("tag", "007")] {
        let body = recorded_review(file).into_bytes();
        let text = review::text(body.clone()).unwrap();
        let review = Review::read(&text).unwrap();
        let mut group = c.benchmark_group(format!("bundle update, {what}"));
        group.bench_function("bare wasmtime", |b| {
            b.iter_batched(
                || review.inputs(),
                |inputs| {
                    let mut store = Store::new(&bare_engine, State(ResourceTable::new()));
                    let lend = |store: &mut Store<State>, document: &Arc<Document>| {
                        let own = store.data_mut().0.push(Handle(document.clone())).unwrap();
                        Resource::new_borrow(own.rep())
                    };
                    let object = lend(&mut store, inputs.object.as_ref().unwrap());
                    let old = lend(&mut store, inputs.old_object.as_ref().unwrap());
                    let settings = lend(&mut store, &settings);
                    let request = Resource::new_borrow(0);
                    let policy = bare.instantiate(&mut store).unwrap();
                    let verdict = policy.call_validate(
                        &mut store,
                        bare_types::Operation::Update,
                        1 << BUNDLE_ROUTE,
                        request,
                        Some(object),
                        Some(old),
                        settings,
                    );
                    black_box(verdict.unwrap());
                },
                BatchSize::SmallInput,
            );
        });
        group.bench_function("engine (limits, deadline, log)", |b| {
            // As where requests are served, but for a machine that is busy.
            let time = TimeLimit::Attempt(Duration::from_secs(1));
            let budget = Budget { time, ..Budget::of(Limits::default()) };
            let view = Arc::new(cluster::PolicyView::default());
            b.iter_batched(
                || Arc::new(review.inputs()),
                |inputs| {
                    let call = module.validate(
                        &inputs,
                        1 << BUNDLE_ROUTE,
                        &settings,
                        view.reader(cluster::EvaluationView::default()),
                        budget,
                    );
                    black_box(call.result.unwrap())
                },
                BatchSize::SmallInput,
            );
        });
        group.bench_function("decide (matching, permit, levels, decision)", |b| {
            b.iter(|| {
                let deadline = Instant::now() + Duration::from_secs(60);
                black_box(runtime.block_on(set.decide(&review, None, deadline, &())).unwrap())
            });
        });
        group.bench_function("bytes to bytes", |b| {
            b.iter_batched(
                || body.clone(),
                |body| {
                    let text = review::text(body).unwrap();
                    let review = Review::read(&text).unwrap();
                    let deadline = Instant::now() + Duration::from_secs(60);
                    let decision =
                        runtime.block_on(set.decide(&review, None, deadline, &())).unwrap();
                    black_box(response::body(&review, &decision))
                },
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
