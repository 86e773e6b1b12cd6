//! One file a command.

pub(crate) mod agency;
pub(crate) mod backup;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod debug;
pub(crate) mod doctor;
pub(crate) mod doi;
pub(crate) mod export;
pub(crate) mod extract;
pub(crate) mod import;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod name;
pub(crate) mod prefix;
pub(crate) mod registrant;
pub(crate) mod resolve;
pub(crate) mod restore;
pub(crate) mod same;
pub(crate) mod serve;
pub(crate) mod site;
pub(crate) mod token;
pub(crate) mod verify;

use tendot_names::Parser;

use crate::args::ParseArguments;

impl ParseArguments {
    fn parser(self) -> Parser {
        let reader = if self.strict { Parser::strict() } else { Parser::lenient() };
        reader.rules(self.rules.0).max_len(crate::lines::MAX_LINE_LEN)
    }
}
