//! Commands on DOI names: `name` parses, `same` compares, `extract` finds them in files.

pub(crate) mod extract;
pub(crate) mod name;
pub(crate) mod same;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use tendot_names::{Parser, SyntaxRules};

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ParseArguments {
    /// The rules that a name has to satisfy
    #[arg(long, value_name = "RULES", default_value = "current")]
    pub(crate) rules: RulesArgument,

    /// Take only what the standards define, not what people paste
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Value of `--rules`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RulesArgument(pub(crate) SyntaxRules);

impl ValueEnum for RulesArgument {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(SyntaxRules::Current), Self(SyntaxRules::Z3984), Self(SyntaxRules::Minimal2002)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            SyntaxRules::Current => "names as they are registered today",
            SyntaxRules::Z3984 => "ANSI/NISO Z39.84-2005 to the letter",
            SyntaxRules::Minimal2002 => "prefix and suffix are not empty",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

impl ParseArguments {
    fn parser(self) -> Parser {
        let parser = if self.strict { Parser::strict() } else { Parser::lenient() };
        parser.rules(self.rules.0).max_len(crate::line_reader::MAX_LINE_LEN)
    }
}
