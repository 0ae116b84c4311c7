//! The command line with help: every command with examples and a link to its page, under the name by which it
//! was started.
//!
//! ```text
//! Cli (derived) ─▶ EXAMPLES, for commands without examples ─▶ `kubectl opgate` ─▶ parser, help, man pages
//! ```

use std::ffi::OsStr;
use std::path::Path;

use clap::Command;

use super::verbosity;

/// Below the help of commands: what to try, and where to read more. The path of a command is without the
/// name of the program.
const COMMAND_EXAMPLES: &[(&str, &str)] = &[
    (
        "demo",
        "Example:\n  opgate demo\n\nREADME.md shows what it prints; docs/README.md lists all pages.",
    ),
    (
        "doctor explain",
        "Example:\n  opgate doctor explain DOC-12 DOC-31\n\ndocs/doctor/README.md lists all findings.",
    ),
    (
        "doctor docs",
        "Example:\n  opgate doctor docs docs/doctor\n\ndocs/doctor.md has the details.",
    ),
    (
        "rules explain",
        "Example:\n  opgate rules explain RPK-01 OPG-22\n\ndocs/rules/README.md has all pages of the built-in rules.",
    ),
    (
        "rules docs",
        "Example:\n  opgate rules docs --config opgate.yaml public/rules\n\ndocs/configuration.md describes links in reports (docsUrl).",
    ),
    (
        "policy",
        "Examples:\n  opgate policy list --config opgate.yaml\n  opgate policy inspect house_images.component.wasm\n\ndocs/write-a-policy.md describes policies of your own, docs/registries.md registries.",
    ),
    (
        "policy list",
        "Example:\n  opgate policy list --config opgate.yaml -o json\n\ndocs/configuration.md describes the built-in policies.",
    ),
    (
        "policy inspect",
        "Examples:\n  opgate policy inspect operator-group\n  opgate policy inspect house_images.component.wasm -o json\n\ndocs/write-a-policy.md has the details.",
    ),
    (
        "policy push",
        "Example:\n  opgate policy push house_images.component.wasm oci://registry.example.com/policies/house-images:1.0.0\n\ndocs/registries.md has the details.",
    ),
    (
        "policy pull",
        "Example:\n  opgate policy pull --key cosign.pub oci://registry.example.com/policies/house-images:1.0.0\n\ndocs/registries.md has the details.",
    ),
    (
        "policy verify",
        "Example:\n  opgate policy verify --key cosign.pub oci://registry.example.com/policies/house-images:1.0.0\n\ndocs/registries.md has the details.",
    ),
    (
        "policy wit",
        "Examples:\n  opgate policy wit --out policy.wit\n  opgate policy wit --push oci://registry.example.com/opgate/policy:0.7.0\n\ndocs/policies/contract.md describes the contract.",
    ),
    (
        "review",
        "Example:\n  opgate review new -f pod.yaml | opgate replay -\n\ndocs/replay.md has the details.",
    ),
    (
        "certs",
        "Examples:\n  opgate certs issue --out tls --service opgate-system/opgate\n  opgate certs check --tls-dir tls --name opgate.opgate-system.svc\n\ndocs/certificates.md has the details.",
    ),
    (
        "certs check",
        "Example:\n  opgate certs check --tls-dir tls --name opgate.opgate-system.svc\n\nExit status: 0 no problem, 1 any problem, 2 wrong usage or unreadable input. docs/certificates.md has\nthe details.",
    ),
    (
        "constraint",
        "Example:\n  opgate constraint eval constraint.json --properties properties.yaml\n\ndocs/check.md has the details.",
    ),
    (
        "manifests",
        "Examples:\n  opgate manifests all --image IMAGE | kubectl apply -f -\n  opgate manifests webhook --service opgate-system/opgate --ca tls/ca.crt\n\ndocs/install.md has the details.",
    ),
    (
        "manifests all",
        "Example:\n  opgate manifests all --config opgate.yaml --image IMAGE | kubectl apply -f -\n\ndocs/install.md has the details.",
    ),
    (
        "manifests webhook",
        "Example:\n  opgate manifests webhook --service opgate-system/opgate --ca tls/ca.crt | kubectl apply -f -\n\ndocs/operate/webhooks.md has the details.",
    ),
    (
        "manifests package",
        "Example:\n  opgate manifests package deploy --image IMAGE\n\ndocs/install.md has the details.",
    ),
    (
        "manifests rbac",
        "Example:\n  opgate manifests rbac --config opgate.yaml --service-account opgate-system/opgate\n\ndocs/operate/permissions.md has the details.",
    ),
    (
        "manifests audit",
        "Example:\n  opgate manifests audit --config opgate.yaml --image IMAGE | kubectl apply -f -\n\ndocs/audit.md has the details.",
    ),
    (
        "manifests network-policy",
        "Example:\n  opgate manifests network-policy --api-server 10.0.0.0/28 | kubectl apply -f -\n\ndocs/operate/restrict-clients.md has the details.",
    ),
];

/// The name of the program as a plugin of kubectl, which finds it by its file.
const PLUGIN: &str = "kubectl-opgate";

/// Reports whether kubectl has started it: `kubectl opgate …`.
pub(super) fn is_plugin() -> bool {
    let started_as = std::env::args_os().next().unwrap_or_default();
    Path::new(&started_as).file_stem() == Some(OsStr::new(PLUGIN))
}

/// Returns the command line of this process, from the derived one.
pub(super) fn command(derived: Command) -> Command {
    let command = with_examples(derived);
    // Help and errors of usage are written while arguments are read.
    let command = match color_choice() {
        Some(choice) => {
            verbosity::colors(choice);
            command.color(choice)
        }
        None => command,
    };
    if is_plugin() { rename_program(command.bin_name("kubectl opgate")) } else { command }
}

/// Returns all commands, each with examples.
pub(super) fn with_examples(derived: Command) -> Command {
    add_examples(derived, "")
}

fn add_examples(command: Command, path: &str) -> Command {
    let known = COMMAND_EXAMPLES.iter().find(|(of, _)| *of == path).map(|(_, text)| *text);
    let command = match known {
        Some(text) if command.get_after_help().is_none() => command.after_help(text),
        _ => command,
    };
    command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        add_examples(command, path.trim_start())
    })
}

/// Examples that can be copied as they are.
fn rename_program(command: Command) -> Command {
    let text = command.get_after_help().map(ToString::to_string);
    let command = match text {
        Some(text) => {
            let text = text.replace("  opgate ", "  kubectl opgate ");
            let text = text.replace("`opgate ", "`kubectl opgate ");
            command.after_help(text.replace("| opgate ", "| kubectl opgate "))
        }
        None => command,
    };
    command.mut_subcommands(rename_program)
}

/// Returns the value of `--color`, at any position in the arguments.
fn color_choice() -> Option<clap::ColorChoice> {
    let mut arguments = std::env::args_os()
        .skip(1)
        .map(|text| text.to_string_lossy().into_owned())
        .take_while(|argument| argument != "--");
    let value = arguments.find_map(|argument| match argument.strip_prefix("--color") {
        Some("") => Some(None),
        Some(rest) => rest.strip_prefix('=').map(|value| Some(value.to_owned())),
        None => None,
    })?;
    let value = value.or_else(|| arguments.next())?;
    clap::ValueEnum::from_str(&value, false).ok()
}
