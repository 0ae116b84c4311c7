//! Settings of the compiler. They are the same for the build script, which compiles the built-in
//! policies, and for the host, which loads them and compiles others. wasmtime rejects code that
//! was compiled with other settings.

use wasmtime::Config;

/// Stack of a guest. Deeper recursion is a policy error.
pub(crate) const MAX_STACK_BYTES: usize = 512 << 10;

/// Settings of the compilation. `unlimited_options` is true if 4 GiB of address space can be reserved for each
/// memory, so that code needs no bounds checks. Otherwise code of the other kind does not load and
/// is compiled again.
pub(crate) fn config(target: &str, large_address_space: bool) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    // The baseline of the target, not the CPU of this machine: the binary runs anywhere, and
    // replays give the same code everywhere.
    config.target(target)?;
    config.wasm_component_model(true);
    config.epoch_interruption(true);
    config.max_wasm_stack(MAX_STACK_BYTES);
    // Proposals that no guest needs. Two advisories of 2026 affect the code generation for SIMD.
    config.wasm_simd(false).wasm_relaxed_simd(false);
    config.wasm_tail_call(false).wasm_memory64(false);
    // wasmtime's generated code, which passes texts between the modules of a component, uses the
    // memories of both. Without this setting it panics. Components with modules that use several
    // memories are rejected.
    config.wasm_multi_memory(true);
    // A policy error names limits and imports, not the functions of the guest.
    config.wasm_backtrace_max_frames(None);
    // Only backtraces need it, and it is a tenth of an image.
    config.generate_address_map(false);
    // Nothing unwinds through a guest: host functions that panic are caught before, and traps do not
    // unwind. Windows needs it for every function.
    config.native_unwind_info(target.contains("windows"));
    // Identical bits for identical input, also for floating point.
    config.cranelift_nan_canonicalization(true);
    if !large_address_space {
        config.memory_reservation(0);
        config.memory_guard_size(64 << 10);
        config.memory_reservation_for_growth(1 << 20);
    }
    Ok(config)
}
