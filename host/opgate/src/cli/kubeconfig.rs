//! The kubeconfigs of a command: those of a flag, or those that `kubectl` reads.

use std::ffi::OsStr;
use std::path::PathBuf;

use opgate_platform::files;

/// Returns the files that `kubectl` reads, unless some are named.
pub(super) fn kubeconfig_paths(kubeconfig: &OsStr) -> anyhow::Result<Vec<PathBuf>> {
    let variable = std::env::var_os("KUBECONFIG").unwrap_or_default();
    for text in [kubeconfig, &variable] {
        let paths = std::env::split_paths(text).filter(|path| !path.as_os_str().is_empty());
        let paths: Vec<_> = paths.collect();
        if !paths.is_empty() {
            return Ok(paths);
        }
    }
    let home =
        files::home_directory().map(|home| home.join(".kube/config")).filter(|path| path.is_file());
    home.map(|path| vec![path]).ok_or_else(|| {
        anyhow::anyhow!("there is no kubeconfig: name one with --kubeconfig FILE or KUBECONFIG")
    })
}
