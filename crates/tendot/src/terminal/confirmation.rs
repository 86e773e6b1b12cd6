//! Confirmation of irreversible actions.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

use super::diagnostics::eprint_line;
use crate::{CliError, CommandStatus};

/// Flags of commands that cannot be undone.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ConfirmationArguments {
    /// Show the effect without writing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl ConfirmationArguments {
    /// Shows the effect of an action and asks for confirmation, unless `--yes` is set. Returns the exit status if the action is
    /// not to be carried out. Without a terminal, `--yes` is required.
    pub(crate) fn confirm(
        self,
        effect: impl FnOnce() -> Result<String, CliError>,
    ) -> Result<Option<CommandStatus>, CliError> {
        if self.yes && !self.dry_run {
            return Ok(None);
        }
        let effect = effect()?;
        if self.dry_run {
            eprint_line(format_args!("{effect}; dry run, nothing was written"));
            return Ok(Some(CommandStatus::Success));
        }
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(CliError::new(format!("confirmation required: {effect}"))
                .with_hint("use `--yes` to confirm, or `--dry-run` to see the effect"));
        }
        eprint_line(&effect);
        let failed = |error: io::Error| CliError::io("cannot ask for confirmation", &error);
        let mut terminal = io::stderr().lock();
        terminal.write_all(b"Continue? [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(failed)?;
        if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Ok(None);
        }
        drop(terminal);
        eprint_line("cancelled; nothing was written");
        Ok(Some(CommandStatus::Negative))
    }
}
