//! The commands of the registry: what they take.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

/// Which service is asked, and by whom; all commands of the registry have these.
#[derive(Args, Clone, Debug)]
pub(crate) struct ApiConnectionArguments {
    /// The service that is asked [default: TENDOT_SERVER, else http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,

    /// The token that says who asks [default: TENDOT_TOKEN, which others on this machine can't see]
    #[arg(long, value_name = "TOKEN", global = true)]
    pub(crate) token: Option<String>,

    /// Believe the certificates in this file (PEM) instead of those of public authorities
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) trust: Option<PathBuf>,

    /// Print one JSON object a line, as the service gives it
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Registration agencies: those who give prefixes to registrants
///
/// Asks a running service, see `--server` and `--token`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  export TENDOT_TOKEN=$(cat tendot-data/operator.token)
  tendot agency add LIB 'The library' --metadata required
  tendot agency list
  tendot agency end LIB --to MUS

Exit codes: 0 done, 1 there is no such agency or it was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct AgencyArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: AgencyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgencyCommand {
    /// Make an agency, and print its code
    Add {
        /// By which it is known: ASCII letters, digits, `-` and `_`
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        settings: AgencyFieldArguments,
    },
    /// Print all agencies
    List(ListArguments),
    /// Print all about an agency
    Show {
        /// Its code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
    },
    /// Change an agency; what is not given stays
    Set {
        /// Its code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// Its name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        settings: AgencyFieldArguments,
    },
    /// End an agency, and give all it has to another, at once; print the id of the transfer
    End {
        /// Its code
        #[arg(value_name = "CODE", value_parser = NonEmptyStringValueParser::new())]
        code: String,
        /// The agency that gets its registrants, with their prefixes and names
        #[arg(long, value_name = "CODE")]
        to: String,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AgencyFieldArguments {
    /// Whether its names have to come with metadata
    #[arg(long, value_name = "WHEN")]
    pub(crate) metadata: Option<MetadataPolicyArgument>,
    /// The prefixes it gives away, such as 10.70000-10.79999
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) range: Option<String>,
    /// The record with the locations that all of its names have
    #[arg(long, value_name = "HANDLE")]
    pub(crate) locations: Option<String>,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListArguments {
    /// At most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
}

/// Whether metadata has to be there.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MetadataPolicyArgument {
    /// A name is not registered without
    Required,
    /// It may come later, or never
    OnRequest,
}

/// Registrants: those who have prefixes and register names
///
/// Asks a running service, see `--server` and `--token`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  PRESS=$(tendot registrant add --agency LIB 'Example Press' --contact doi@example.org)
  tendot registrant list --agency LIB
  tendot registrant set $PRESS --admin 300:10.70000/admin

Exit codes: 0 done, 1 there is no such registrant or it was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct RegistrantArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: RegistrantCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistrantCommand {
    /// Make a registrant, and print its id
    Add {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// The code of its agency; not needed with an agency's token
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        /// How it is reached; only those concerned are told
        #[arg(long, value_name = "CONTACT")]
        contact: Option<String>,
        /// Who acts for it in the Handle System, such as 300:10.70000/admin; may be repeated
        #[arg(long = "admin", value_name = "INDEX:HANDLE")]
        admins: Vec<String>,
    },
    /// Print registrants
    List {
        /// Only those of this agency
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Print all about a registrant
    Show {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Change a registrant; what is not given stays
    Set {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Its name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// How it is reached
        #[arg(long, value_name = "CONTACT")]
        contact: Option<String>,
        /// Who acts for it in the Handle System, instead of those before; may be repeated
        #[arg(long = "admin", value_name = "INDEX:HANDLE")]
        admins: Vec<String>,
        /// Nobody acts for it in the Handle System
        #[arg(long, conflicts_with = "admins")]
        no_admins: bool,
    },
}

/// Prefixes, and what may be registered under them
///
/// Asks a running service, see `--server` and `--token`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  PREFIX=$(tendot prefix add --registrant $PRESS)
  tendot prefix add --registrant $PRESS 10.70007 --pattern '[a-z]+[.][0-9]+' --host example.org --quota 10000
  tendot prefix set 10.70007 --quota 20000 --clear pattern
  tendot prefix transfer 10.70007 --to $OTHER

Exit codes: 0 done, 1 there is no such prefix or it was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct PrefixArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: PrefixCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrefixCommand {
    /// Give a prefix to a registrant, and print it
    Add {
        /// The one that is wanted [default: the agency's next free one]
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: Option<String>,
        /// The id of who gets it
        #[arg(long, value_name = "ID")]
        registrant: String,
        /// Its names are only to try things out, and may be removed again
        #[arg(long)]
        test: bool,
        #[command(flatten)]
        policy: PolicyArguments,
    },
    /// Print prefixes
    List {
        /// Only those of this registrant
        #[arg(long, value_name = "ID")]
        registrant: Option<String>,
        /// Only those of this agency
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Print all about a prefix
    Show {
        /// The prefix
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: String,
    },
    /// Change what may be registered under a prefix; what is not given stays
    Set {
        /// The prefix
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: String,
        #[command(flatten)]
        policy: PolicyArguments,
        /// What is no longer asked for; may be repeated
        #[arg(long, value_name = "WHAT")]
        clear: Vec<PolicyField>,
    },
    /// Propose that another registrant gets a prefix and the names under it; print the id of the transfer
    Transfer {
        /// The prefix
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: String,
        #[command(flatten)]
        receiver: TransferTargetArguments,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArguments {
    /// A regular expression that all of a new suffix has to match
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) pattern: Option<String>,
    /// A host that addresses may lead to, with all below it; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// How many names there may be
    #[arg(long, value_name = "N")]
    pub(crate) quota: Option<u64>,
    /// Whether names have to come with metadata, whatever the agency says
    #[arg(long, value_name = "WHEN")]
    pub(crate) metadata: Option<MetadataPolicyArgument>,
    /// What is done about names that look like others
    #[arg(long, value_name = "WHAT")]
    pub(crate) confusable: Option<ConfusableArgument>,
}

/// What is done about names that look like others.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ConfusableArgument {
    /// They are registered, with a warning
    Warn,
    /// They are not registered
    Refuse,
}

/// A part of what may be registered under a prefix.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PolicyField {
    /// Any suffix
    Pattern,
    /// Any host
    Hosts,
    /// Any number of names
    Quota,
    /// Metadata as the agency says
    Metadata,
    /// Names that look like others are noted
    Confusable,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct TransferTargetArguments {
    /// The id of the registrant who is to get it
    #[arg(long, value_name = "ID")]
    pub(crate) to: String,
    /// At once, without being accepted: for the operator
    #[arg(long)]
    pub(crate) force: bool,
}

/// Tokens, by which a service knows who asks
///
/// A token is shown once, when it is made. Asks a running service, see `--server` and `--token`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  TENDOT_TOKEN=$(tendot token add --role registrant --subject $PRESS --scope deposit --label 'nightly import')
  tendot token list
  tendot token revoke 4mzk8qq2

Exit codes: 0 done, 1 there is no such token or it was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct TokenArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and print it
    Add {
        /// For whom it is
        #[arg(long, value_name = "ROLE")]
        role: RoleArgument,
        /// The agency's code or the registrant's id; none for the operator
        #[arg(long, value_name = "SUBJECT")]
        subject: Option<String>,
        /// What it is for; may be repeated [default: all that the role may]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<ScopeArgument>,
        /// Which prefix it is for; may be repeated [default: all]
        #[arg(long = "prefix", value_name = "PREFIX")]
        prefixes: Vec<String>,
        /// Until when: a date, or a time such as 2027-01-31T12:00:00Z [default: until it is revoked]
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// What it is for, in words
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
    },
    /// Print tokens, without what is secret of them
    List(ListArguments),
    /// Revoke a token, at once
    Revoke {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
}

/// For whom a token is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArgument {
    /// Who runs the service
    Operator,
    /// An agency
    Agency,
    /// A registrant
    Registrant,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScopeArgument {
    /// Reading what not everybody may
    Read,
    /// Registering and changing names
    Deposit,
    /// Giving names away and taking them
    Transfer,
    /// Registrants, prefixes and tokens
    Administer,
}

/// DOI names: registering, changing, ending and transferring them
///
/// Asks a running service, see `--server` and `--token`. Names are taken in any written form.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot doi add 10.70000/abc --url https://example.org/abc --metadata abc.json
  NAME=$(tendot doi add --prefix 10.70000 --url https://example.org/new)
  tendot doi set 10.70000/abc --url https://example.org/moved
  tendot doi import names.csv --report report.csv
  tendot doi transfer 10.70000/abc 10.70000/def --to $OTHER
  tendot doi history 10.70000/abc

Exit codes: 0 done, 1 there is no such name or something was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct DoiArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: DoiCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoiCommand {
    /// Register a name, and print it
    Add {
        /// The name
        #[arg(value_name = "NAME", required_unless_present = "prefix", conflicts_with = "prefix",
              value_parser = NonEmptyStringValueParser::new())]
        name: Option<String>,
        /// Make a new name under this prefix
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<String>,
        /// Reserve it only: it does not resolve yet
        #[arg(long)]
        reserve: bool,
        #[command(flatten)]
        deposit: RegistrationArguments,
    },
    /// Print all about a name
    Show {
        /// The name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Change a name; what is not given stays
    Set {
        /// The name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Register it, if it was reserved
        #[arg(long)]
        register: bool,
        #[command(flatten)]
        deposit: RegistrationArguments,
    },
    /// End a name: it leads nowhere any more, and is never given again
    End {
        /// The name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Print names
    List {
        /// Only those under this prefix
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<String>,
        /// Only those of this registrant
        #[arg(long, value_name = "ID")]
        registrant: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Print all that ever changed under a name, the oldest first
    History {
        /// The name
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Propose that another registrant gets names; print the id of the transfer
    Transfer {
        /// The names
        #[arg(value_name = "NAME", required = true, value_parser = NonEmptyStringValueParser::new())]
        names: Vec<String>,
        #[command(flatten)]
        receiver: TransferTargetArguments,
    },
    /// Accept a transfer: of names, a prefix or an agency
    Accept {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Decline a transfer, or take it back
    Decline {
        /// Its id
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Print the transfers in which who asks gives or receives
    Transfers(ListArguments),
    Import(DoiImportArguments),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RegistrationArguments {
    /// Where it leads
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file with kernel metadata, JSON or XML; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) metadata: Option<PathBuf>,
    /// A further value, such as `3:EMAIL:doi@example.org`, or a JSON object as in a record; may be repeated
    #[arg(long = "value", value_name = "INDEX:TYPE:DATA")]
    pub(crate) values: Vec<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Register and change names from files, line by line
///
/// Names that are there are changed. A line that is refused holds up none of the others. What was answered is kept by the
/// service for 24 hours, by the content of the file: when the connection is cut it goes on where it was, and when the same
/// file is imported again, the same is answered and nothing is done twice. Standard input is sent as it comes, and can't be
/// sent again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot doi import names.ndjson
  tendot doi import names.csv --dry-run
  tendot doi import names.csv --report report.csv
  make-names | tendot doi import -

A line of NDJSON is {\"name\" or \"prefix\", \"url\", \"values\", \"metadata\", \"state\"}; the first line of CSV names the columns:
name, prefix, url, state and metadata (JSON).

Exit codes: 0 all are in, 1 some were refused (told on stderr, the others are in), 2 it did not come to its end.")]
pub(crate) struct DoiImportArguments {
    /// Files to send; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// The format of the files [default: csv if a name ends so, else ndjson]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<BatchFormat>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// A file for what became of each line; CSV if its name ends so, else NDJSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// By which the service knows the batch when it is sent again [default: made from the file's content]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) key: Option<String>,

    /// How often a file is sent again, without a further answer, when the connection is cut
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) tries: u32,
}

/// A format of batches.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum BatchFormat {
    /// a JSON object a line
    Ndjson,
    /// rows, the first of which names the columns
    Csv,
}
