//! `opgate completions`: scripts that complete commands, flags, and ids of rules and findings.

use std::io::Write as _;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::output::stdout;
use crate::cli::{doctor, help};
use opgate_builtin_policies::{self as builtin, BUILTINS};

const COMPLETIONS_AFTER_HELP: &str = "\
Examples:
  opgate completions bash > /etc/bash_completion.d/opgate
  opgate completions zsh > \"${fpath[1]}/_opgate\"
  opgate completions fish > ~/.config/fish/completions/opgate.fish
  opgate completions powershell >> $PROFILE

docs/command-line.md has the details.";

/// Arguments of `opgate completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_AFTER_HELP)]
pub(super) struct Completions {
    /// Shell that completes commands, flags, formats, and the ids of rules and of findings of the doctor
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, cli: Command) -> Result<ExitStatus, CommandError> {
        let rules: Vec<_> = builtin::rule_ids().into_iter().collect();
        let findings = doctor::ids().map(str::to_owned).collect();
        let policies = BUILTINS.iter().map(|builtin| builtin.name.to_owned()).collect();
        let values: [(&str, &str, Vec<String>); 3] = [
            ("rules", "explain", rules),
            ("doctor", "explain", findings),
            ("policy", "inspect", policies),
        ];
        let mut command = help::with_examples(cli);
        let mut more = String::new();
        for (name, of, values) in values {
            if self.shell == Shell::Fish {
                // clap_complete leaves out what is no flag there.
                let (seen, all) = ("__fish_seen_subcommand_from", values.join(" "));
                let line = format!(
                    "complete -c opgate -n \"{seen} {name}; and {seen} {of}\" -a \"{all}\"\n"
                );
                more.push_str(&line);
            }
            command = with_values(command, name, of, values);
        }
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "opgate", &mut script);
        script.extend(more.bytes());
        // The script is written unchanged.
        let mut out = stdout(None);
        out.write_all(&script)?;
        out.flush()?;
        Ok(ExitStatus::Ok)
    }
}

/// Returns the command with values for the first positional argument of a subcommand.
fn with_values(command: Command, name: &str, of: &str, values: Vec<String>) -> Command {
    // clap wants texts that live as long as the process, which ends here.
    let values: Vec<_> =
        values.into_iter().map(|value| PossibleValue::new(&*value.leak())).collect();
    command.mut_subcommand(name, |command| {
        command.mut_subcommand(of, |command| {
            let positional = command.get_positionals().next().map(|arg| arg.get_id().clone());
            match positional {
                Some(id) => {
                    command.mut_arg(id, |arg| arg.value_parser(PossibleValuesParser::new(values)))
                }
                None => command,
            }
        })
    })
}
