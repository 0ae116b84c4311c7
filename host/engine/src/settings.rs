//! Settings of the compiler, the same for the build script, which compiles the built-in policies,
//! and for the host, which loads them and compiles others. wasmtime refuses code that was compiled
//! with other settings.

use wasmtime::Config;

/// Stack of a guest. Deeper recursion is a fault of the policy.
pub(crate) const STACK: usize = 512 << 10;

/// What is compiled, and how. `roomy` is whether 4 GiB of address space can be reserved for each
/// memory, so that its bounds need no checks; where they cannot, code of the other kind does not
/// load and is compiled anew.
pub(crate) fn config(target: &str, roomy: bool) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    // The target's baseline, not this machine's processor: the binary runs anywhere, and replays
    // give the same code everywhere.
    config.target(target)?;
    config.wasm_component_model(true);
    config.epoch_interruption(true);
    config.max_wasm_stack(STACK);
    // Proposals that no guest needs. SIMD: two of 2026's advisories are about its code generation.
    config.wasm_simd(false).wasm_relaxed_simd(false);
    config.wasm_tail_call(false).wasm_memory64(false);
    // What wasmtime makes to pass a text from one module of a component to another uses the memories of
    // both, and without this it panics. Modules that use several themselves do not pass the gate.
    config.wasm_multi_memory(true);
    // A fault names limits and imports, not the functions of the guest.
    config.wasm_backtrace_max_frames(None);
    // Only backtraces want it, and it is a tenth of an image.
    config.generate_address_map(false);
    // Same bits for the same input, also for floating point.
    config.cranelift_nan_canonicalization(true);
    if !roomy {
        config.memory_reservation(0);
        config.memory_guard_size(64 << 10);
        config.memory_reservation_for_growth(1 << 20);
    }
    Ok(config)
}
