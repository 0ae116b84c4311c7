//! `opgate manifests network-policy`: restricts the clients of the ports of the server's pods.
//!
//! The webhook port is for API servers, which usually run on the network of their nodes, so that no
//! selector finds them: they are named by address. The ops port is for what reads metrics. Probes
//! come from the pod's own node, which network policies do not keep out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use clap::Args;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::registration::names::{is_domain, namespace, object_name};
use crate::registration::webhook::NAMESPACE_NAME_LABEL;
use opgate_controller::NAME_LABEL;

/// The reason why a text is no address and no label of pods.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NetworkError(String);

/// Arguments of `opgate manifests network-policy`.
#[derive(Debug, Args)]
pub struct Network {
    /// Addresses from which API servers reach the webhook port; may be repeated
    #[arg(long, value_name = "CIDR", value_parser = cidr, required = true)]
    api_server: Vec<String>,
    /// Namespace whose pods may reach the ops port; may be repeated [default: none]
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    metrics_from: Vec<String>,
    /// Namespace of the server
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace, default_value = "opgate-system")]
    namespace: String,
    /// Label of the server's pods; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, default_value = "app.kubernetes.io/name=opgate")]
    pod_label: Vec<(String, String)>,
    /// Port of the pods that API servers call
    #[arg(long, value_name = "PORT", default_value = "9443")]
    webhook_port: NonZeroU16,
    /// Port of the pods that serves /metrics
    #[arg(long, value_name = "PORT", default_value = "8081")]
    ops_port: NonZeroU16,
    /// Name of the network policy
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = "opgate")]
    name: String,
}

/// Clients that can reach a port.
#[derive(Debug)]
pub enum AllowedClients {
    /// All clients, from any address.
    Any,
    /// The pods of the cluster.
    Pods,
    /// Addresses, and pods of namespaces; no client if empty.
    Named {
        /// Addresses as CIDRs.
        addresses: Vec<String>,
        /// By name.
        namespaces: Vec<String>,
    },
}

impl Network {
    /// Returns the network policy.
    ///
    /// # Errors
    /// If flags contradict each other.
    pub fn policy(self) -> anyhow::Result<NetworkPolicy> {
        let labels: BTreeMap<_, _> = self.pod_label.iter().cloned().collect();
        anyhow::ensure!(
            labels.len() == self.pod_label.len(),
            "--pod-label names a key twice: no pod has two values of one"
        );
        let webhook = AllowedClients::Named { addresses: self.api_server, namespaces: Vec::new() };
        let ops = AllowedClients::Named { addresses: Vec::new(), namespaces: self.metrics_from };
        let metadata = ObjectMeta {
            name: Some(self.name),
            namespace: Some(self.namespace),
            labels: Some([(NAME_LABEL.0.to_owned(), NAME_LABEL.1.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let ports = [(self.webhook_port.get(), webhook), (self.ops_port.get(), ops)];
        Ok(policy(metadata, labels, ports))
    }
}

/// Returns a policy that admits only the named clients to the ports of the pods with these labels.
pub fn policy<const N: usize>(
    metadata: ObjectMeta,
    labels: BTreeMap<String, String>,
    ports: [(u16, AllowedClients); N],
) -> NetworkPolicy {
    NetworkPolicy {
        metadata,
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(label_selector(labels)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(
                ports.into_iter().filter_map(|(port, from)| ingress_rule(port, from)).collect(),
            ),
            egress: None,
        }),
    }
}

/// Returns no rule without a named client: a rule without `from` admits every client.
fn ingress_rule(port: u16, from: AllowedClients) -> Option<NetworkPolicyIngressRule> {
    let port = NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(port))),
        protocol: Some("TCP".to_owned()),
        end_port: None,
    };
    let ports = Some(vec![port]);
    let pods_of = |labels: BTreeMap<_, _>| NetworkPolicyPeer {
        namespace_selector: Some(label_selector(labels)),
        ..NetworkPolicyPeer::default()
    };
    let peers = match from {
        AllowedClients::Any => return Some(NetworkPolicyIngressRule { from: None, ports }),
        AllowedClients::Pods => vec![pods_of(BTreeMap::new())],
        AllowedClients::Named { addresses, namespaces } => {
            let block = |cidr| NetworkPolicyPeer {
                ip_block: Some(IPBlock { cidr, except: None }),
                ..NetworkPolicyPeer::default()
            };
            let named = |name| pods_of([(NAMESPACE_NAME_LABEL.to_owned(), name)].into());
            addresses.into_iter().map(block).chain(namespaces.into_iter().map(named)).collect()
        }
    };
    (!peers.is_empty()).then_some(NetworkPolicyIngressRule { from: Some(peers), ports })
}

/// Creates a selector for labels; without labels it selects everything.
fn label_selector(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels).filter(|labels| !labels.is_empty()),
        match_expressions: None,
    }
}

/// Returns an argument that names addresses.
pub(crate) fn cidr(text: &str) -> Result<String, NetworkError> {
    let wrong = |why: String| NetworkError(format!("{text:?} is not a CIDR: {why}"));
    let Some((address, bits)) = text.split_once('/') else {
        return Err(wrong("write ADDRESS/BITS, for one address 10.0.0.1/32 or fd00::1/128".into()));
    };
    let address: IpAddr =
        address.parse().map_err(|_| wrong(format!("{address:?} is no address")))?;
    // As API servers require it: digits, no sign, no leading zero.
    let plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let bits: Option<u32> = bits.parse().ok().filter(|_| plain);
    let network = bits.and_then(|bits| network_address(address, bits));
    let network = network.ok_or_else(|| wrong("the number of bits is wrong".to_owned()))?;
    if network == address {
        return Ok(text.to_owned());
    }
    Err(wrong(format!("{address} is within a network, not its start, which is {network}")))
}

/// Returns the first address of a network.
fn network_address(address: IpAddr, bits: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(ip) => {
            let rest = Ipv4Addr::BITS.checked_sub(bits)?;
            let mask = u32::MAX.checked_shl(rest).unwrap_or_default();
            Some(Ipv4Addr::from_bits(ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let rest = Ipv6Addr::BITS.checked_sub(bits)?;
            let mask = u128::MAX.checked_shl(rest).unwrap_or_default();
            Some(Ipv6Addr::from_bits(ip.to_bits() & mask).into())
        }
    }
}

/// Returns an argument that names a label.
pub(crate) fn label(text: &str) -> Result<(String, String), NetworkError> {
    let is_name = |name: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        let bytes = name.as_bytes();
        name.len() <= 63
            && bytes.iter().copied().all(inner)
            && edge(bytes.first().copied())
            && edge(bytes.last().copied())
    };
    let is_key = |key: &str| match key.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_name(name),
        None => is_name(key),
    };
    match text.split_once('=') {
        Some((key, value)) if is_key(key) && (value.is_empty() || is_name(value)) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(NetworkError(format!("{text:?} is not a label: write KEY=VALUE"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_named_as_networks() {
        for right in [
            "10.0.0.0/8",
            "10.0.0.1/32",
            "0.0.0.0/0",
            "192.168.0.128/25",
            "fd00::/8",
            "::1/128",
            "::/0",
        ] {
            assert_eq!(cidr(right), Ok(right.to_owned()));
        }
        for (wrong, why) in [
            ("10.0.0.1", "write ADDRESS/BITS"),
            ("", "write ADDRESS/BITS"),
            ("host/8", "\"host\" is no address"),
            ("/8", "\"\" is no address"),
            ("010.0.0.0/8", "\"010.0.0.0\" is no address"),
            ("10.0.0.0/33", "the number of bits is wrong"),
            ("fd00::/129", "the number of bits is wrong"),
            ("10.0.0.0/", "the number of bits is wrong"),
            ("10.0.0.0/+8", "the number of bits is wrong"),
            ("10.0.0.0/08", "the number of bits is wrong"),
            ("10.0.0.0/-1", "the number of bits is wrong"),
            ("10.0.0.0/8/8", "the number of bits is wrong"),
            ("10.0.0.1/24", "not its start, which is 10.0.0.0"),
            ("10.0.0.1/0", "not its start, which is 0.0.0.0"),
            ("fd00::1/64", "not its start, which is fd00::"),
        ] {
            let error = cidr(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn labels_have_a_key_and_a_value() {
        for right in ["app=opgate", "app.kubernetes.io/name=opgate", "a=", "a_B.9=x-y"] {
            let (key, value) = label(right).unwrap();
            assert_eq!(format!("{key}={value}"), right);
        }
        let long = format!("a={}", "x".repeat(64));
        for wrong in
            ["", "app", "=a", "a=b=c", "a=b c", "-a=b", "a=b-", "/a=b", "A/a=b", "a/b/c=d", &long]
        {
            let error = label(wrong).unwrap_err().to_string();
            assert!(error.contains("write KEY=VALUE"), "{wrong}");
        }
    }
}
