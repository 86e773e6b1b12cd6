//! Reference of the command line, from the clap definition.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::{GENERATED_NOTICE, table_cell};
use crate::cli::{COMMAND_GROUPS, Cli};

/// Page with one section per command and subcommand.
pub(super) fn page() -> String {
    let mut command = Cli::grouped_command();
    command.build();
    let mut page = format!(
        "{GENERATED_NOTICE}\n\n# Command line\n\n\
         All commands are subcommands of `tendot`. Data goes to standard output, diagnostics to standard error. `tendot COMMAND --help` \
         prints the same information in the terminal; `tendot man` and `tendot completions` generate man pages and shell completions.\n\n\
         Exit codes: 0 success, 1 negative result, 2 error. Errors are printed as `error:`, often followed by `hint:`.\n\n\
         | topic | commands |\n|---|---|\n"
    );
    let listed = |name: &&&str| **name != "help";
    for (group, names) in COMMAND_GROUPS {
        let links: Vec<_> =
            names.iter().filter(listed).map(|name| format!("[`{name}`](#tendot-{name})")).collect();
        let _ = writeln!(page, "| {group} | {} |", links.join(" · "));
    }
    let names = COMMAND_GROUPS.iter().flat_map(|(_, names)| names.iter().filter(listed));
    for subcommand in names.filter_map(|name| command.find_subcommand(name)) {
        write_command(&mut page, "tendot", None, subcommand);
    }
    page
}

/// Section of a command, followed by those of its subcommands. Options that a command shares with its subcommands are listed
/// at the command only.
fn write_command(page: &mut String, path: &str, parent: Option<&str>, command: &Command) {
    let path = format!("{path} {}", command.get_name());
    let _ = writeln!(page, "\n{} {path}\n", if parent.is_some() { "###" } else { "##" });
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string);
    let about = about.unwrap_or_default();
    // The first line of a help text has no full stop.
    let (first, rest) = about.split_once("\n\n").unwrap_or((&about, ""));
    let _ = writeln!(page, "{first}.");
    if !rest.is_empty() {
        let _ = writeln!(page, "\n{rest}");
    }
    if !command.is_subcommand_required_set() || command.get_subcommands().next().is_none() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = writeln!(page, "\n```text\n{usage}\n```");
    }
    let is_listed = |argument: &&Arg| {
        !argument.is_hide_set()
            && !matches!(argument.get_id().as_str(), "help" | "version")
            && (parent.is_none() || !argument.is_global_set())
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(is_listed).collect();
    let mut headings: Vec<&str> = Vec::new();
    for argument in &arguments {
        let heading = heading(argument);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    // The order of clap's help: positional arguments, own options, then the other groups.
    headings.sort_by_key(|heading| match *heading {
        "Arguments" => 0,
        "Options" => 1,
        _ => 2,
    });
    for group in headings {
        let _ = writeln!(page, "\n| {} | |\n|---|---|", group.to_lowercase());
        for argument in arguments.iter().filter(|argument| heading(argument) == group) {
            let _ = writeln!(
                page,
                "| {} | {} |",
                table_cell(&syntax(argument)),
                table_cell(&description(argument))
            );
        }
    }
    if let Some(parent) = parent.filter(|_| command.get_arguments().any(Arg::is_global_set)) {
        let anchor = parent.replace(' ', "-");
        let _ = writeln!(page, "\nConnection and output options: see [`{parent}`](#{anchor}).");
    }
    if let Some(after) = command.get_after_long_help() {
        write_after_help(page, &after.to_string());
    }
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        write_command(page, &path, Some(&path), subcommand);
    }
}

fn heading(argument: &Arg) -> &str {
    argument.get_help_heading().unwrap_or(if argument.is_positional() { "Arguments" } else { "Options" })
}

/// Flag and value name, such as `-j, --threads <N>`.
fn syntax(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    format!("`{short}{argument}`")
}

/// Help text with possible values and default.
fn description(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default();
    if !argument.get_action().takes_values() {
        return text;
    }
    let values = argument.get_possible_values();
    let values: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        text += &format!(": {}", values.join(", "));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.concat().is_empty() {
        text += &format!(" [default: {}]", defaults.join(", "));
    }
    text
}

/// Paragraphs after the options; examples become a code block.
fn write_after_help(page: &mut String, text: &str) {
    for paragraph in text.split("\n\n") {
        match paragraph.strip_prefix("Examples:\n") {
            Some(examples) => {
                let lines = examples.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
                let _ = writeln!(page, "\n```sh\n{}\n```", lines.collect::<Vec<_>>().join("\n"));
            }
            None => {
                let _ = writeln!(page, "\n{}.", paragraph.trim_end_matches('.'));
            }
        }
    }
}
