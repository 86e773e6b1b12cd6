//! Commands on DOI names: `name` parses, `same` compares, `extract` finds them in files.

pub(crate) mod extract;
pub(crate) mod name;
pub(crate) mod same;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use tendot_names::{Parser, SyntaxRules};

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ParseArguments {
    /// Syntax rules
    #[arg(long, value_name = "RULES", default_value = "current")]
    pub(crate) rules: RulesArgument,

    /// Accept only forms defined by the standards
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
            SyntaxRules::Current => "DOI names as registered today",
            SyntaxRules::Z3984 => "ANSI/NISO Z39.84-2005",
            SyntaxRules::Minimal2002 => "non-empty prefix and suffix",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

impl ParseArguments {
    fn parser(self) -> Parser {
        let parser = if self.strict { Parser::strict() } else { Parser::lenient() };
        parser.rules(self.rules.0)
    }
}
