//! Install modes of a ClusterServiceVersion and the target namespaces that they support (api
//! `pkg/operators/v1alpha1/clusterserviceversion.go`). No mode implies another.

use std::collections::HashMap;

use crate::Document;

const POINTER: &str = "/spec/installModes";

/// The install modes of a ClusterServiceVersion, in the order in which they stand there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallModes(Vec<(String, bool)>);

impl InstallModes {
    /// Modes and whether they are supported.
    #[must_use]
    pub fn new(modes: Vec<(String, bool)>) -> Self {
        Self(modes)
    }

    /// Creates the modes of a ClusterServiceVersion.
    #[must_use]
    pub fn of(csv: &Document) -> Self {
        Self::at(csv, POINTER)
    }

    /// Creates the modes in the list at a pointer.
    #[must_use]
    pub fn at(document: &Document, pointer: &str) -> Self {
        let mode = |mode: Document| {
            (mode.text_or_empty("/type"), mode.boolean("/supported").unwrap_or_default())
        };
        Self(document.items(pointer).map(mode).collect())
    }

    /// Reports whether there is no mode at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that an Operator in namespace `own` can watch these namespaces, which must be in byte order.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn supports(&self, own: &str, namespaces: &[&str]) -> Result<(), String> {
        let modes = self.by_type()?;
        let has = |mode: &str| modes.get(mode) == Some(&true);
        let own_is_supported = || {
            let text = "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace";
            has("OwnNamespace").then_some(()).ok_or_else(|| text.to_owned())
        };
        match namespaces {
            [] => Err(
                "operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces"
                    .to_owned(),
            ),
            [namespace] if *namespace == own => own_is_supported(),
            [""] => has("AllNamespaces").then_some(()).ok_or_else(|| {
                "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces"
                    .to_owned()
            }),
            [_] => has("SingleNamespace").then_some(()).ok_or_else(|| {
                "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace"
                    .to_owned()
            }),
            many if !has("MultiNamespace") => Err(format!(
                "MultiNamespace InstallModeType not supported, cannot configure to watch {} namespaces",
                many.len()
            )),
            many => many.iter().try_for_each(|&namespace| {
                if namespace == own {
                    own_is_supported()?;
                }
                if namespace.is_empty() {
                    return Err("operatorgroup has invalid selected namespaces, NamespaceAll found when |selected namespaces| > 1".to_owned());
                }
                Ok(())
            }),
        }
    }

    /// Returns the modes by type.
    ///
    /// # Errors
    /// Fails with upstream's text if a type occurs twice.
    fn by_type(&self) -> Result<HashMap<&str, bool>, String> {
        let set: HashMap<_, _> = self.0.iter().map(|(mode, on)| (mode.as_str(), *on)).collect();
        if set.len() == self.0.len() {
            return Ok(set);
        }
        let modes: Vec<_> = self.0.iter().map(|(mode, on)| format!("{{{mode} {on}}}")).collect();
        Err(format!("InstallMode list contains duplicates, cannot make set: [{}]", modes.join(" ")))
    }
}
