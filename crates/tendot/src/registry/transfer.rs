//! Transfers of DOI names and prefixes to another registrant.

use clap::Args;
use serde_json::Value as Json;

use crate::terminal::escape_control;

#[derive(Args, Clone, Debug)]
pub(crate) struct TransferTargetArguments {
    /// The id of the registrant who is to get it
    #[arg(long, value_name = "ID")]
    pub(crate) to: String,
    /// At once, without being accepted: for the operator
    #[arg(long)]
    pub(crate) force: bool,
}

/// Message about a new transfer: proposed, or completed at once.
pub(super) fn transfer_message(created: &Json) -> String {
    let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
    match created["state"].as_str() {
        Some("done") => format!("the transfer to {} is done", text("to")),
        _ => format!(
            "the transfer is proposed; {} accepts it with `tendot doi accept {}`",
            text("to"),
            text("id")
        ),
    }
}
