//! The command line.

mod registry;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tendot_names::{OutputForm, SyntaxRules};

pub(crate) use self::registry::*;
use crate::import::ImportFormat;

/// The DOI system as one program: names, directory, resolver and registry.
#[derive(Debug, Parser)]
#[command(
    name = "tendot",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Exit codes: 0 yes or done, 1 a negative answer, 2 the command could not be carried out."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Name(NameArguments),
    Same(SameArguments),
    Extract(ExtractArguments),
    Serve(ServeArguments),
    Resolve(ResolveArguments),
    #[command(subcommand)]
    Config(ConfigArguments),
    #[command(subcommand)]
    Site(SiteArguments),
    Agency(AgencyArguments),
    Registrant(RegistrantArguments),
    Prefix(PrefixArguments),
    Doi(DoiArguments),
    Token(TokenArguments),
    Import(ImportArguments),
    Export(ExportArguments),
    Migrate(MigrateArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
    Verify(VerifyArguments),
    Doctor(ExplainArguments),
    Debug(DebugArguments),
    Completions(CompletionsArguments),
    Man(ManArguments),
}

/// Reads DOI names in any written form and says all about them
///
/// Each NAME is read, or each line of standard input when none is given: a bare name, `doi:`, `urn:doi:`,
/// `https://doi.org/…` and its older spellings, `info:doi/`, `hdl:`, `urn:eidr:`, a shortDOI.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot name https://dx.doi.org/10.1000%2F182
  tendot name --as url '10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-0'
  tendot name --as canonical < list.txt > clean.txt
  tendot name --repair --json '10.1126/science.1255642.pmid:26068859'

Exit codes: 0 all are names, 1 some are not (told on stderr), 2 the input could not be read.")]
pub(crate) struct NameArguments {
    /// What to read [default: lines of standard input]
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) names: Vec<OsString>,

    /// Print just this form, one line an input; an empty line for what is no name
    #[arg(long = "as", value_name = "FORM", conflicts_with = "json")]
    pub(crate) form: Option<OutputFormArgument>,

    /// Also cut damage off: punctuation, tails of addresses, glued notes; and say what was cut
    #[arg(long, conflicts_with = "strict")]
    pub(crate) repair: bool,

    #[command(flatten)]
    pub(crate) reading: ParseArguments,

    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Says whether two texts are written forms of the same DOI name
///
/// Case counts only outside ASCII; percent-encoding counts only in bare names.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot same 10.1000/ABC https://doi.org/10.1000/abc && echo same

Exit codes: 0 the same, 1 different names, 2 one of them is no name.")]
pub(crate) struct SameArguments {
    /// One written form
    #[arg(value_name = "A", allow_hyphen_values = true)]
    pub(crate) a: OsString,

    /// The other
    #[arg(value_name = "B", allow_hyphen_values = true)]
    pub(crate) b: OsString,

    #[command(flatten)]
    pub(crate) reading: ParseArguments,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ParseArguments {
    /// The rules that a name has to satisfy
    #[arg(long, value_name = "RULES", default_value = "current")]
    pub(crate) rules: RulesArgument,

    /// Take only what the standards define, not what people paste
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Finds DOI names in text, files and folders
///
/// One name a line, in order of appearance, decoded and without the punctuation around it. Folders are searched
/// with all they contain, except hidden files and links.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot extract paper.txt
  tendot extract --unique references/ > dois.txt
  pdftotext paper.pdf - | tendot extract --join-lines
  tendot extract --json refs.bib | jq -r 'select(.flags | index(\"tail-cut\")) | .text'

In .csv and .tsv files a name ends with its field.

Exit codes: 0 found, 1 nothing found, 2 something could not be read (the rest was searched).")]
pub(crate) struct ExtractArguments {
    /// Files and folders; `-` is standard input [default: -]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Each name only once, in the spelling found first
    #[arg(long)]
    pub(crate) unique: bool,

    /// Print only how many there are
    #[arg(long)]
    pub(crate) count: bool,

    /// Read on in the next line when a name seems to be broken there, as in text from PDF files
    #[arg(long)]
    pub(crate) join_lines: bool,

    /// Keep what publishers' addresses append (`/full`, `.pdf`) and notes glued to a name
    #[arg(long)]
    pub(crate) keep_tails: bool,

    /// Print one JSON object a line: name, path, line, start, end (bytes), text as found, flags
    #[arg(long)]
    pub(crate) json: bool,

    /// How many files, or parts of a large one, are searched at the same time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) threads: Option<u8>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArguments {
    /// The directory of the embedded store [default: tendot-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The store: `embedded:DIR` or `postgres://user@host/database`
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub(crate) store: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ConfigSourceArguments {
    /// A file of settings, see `tendot config init` [default: TENDOT_CONFIG, else none]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Any setting of that file, such as `http.limits.idle_time=30s`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// Answers requests for names
///
/// Redirects at `/NAME`, gives and takes records as JSON at `/api/handles/NAME`, and shows pages. SIGTERM finishes what is
/// under way. At the first start the operator's token is made, in the file `operator.token` of the directory. Settings are
/// taken from a file, from variables and from flags; `tendot config show` tells which of them hold.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot serve --demo
  tendot serve --data /var/lib/tendot --http [::]:8080
  tendot serve --config /etc/tendot.toml --set log.requests=true
  curl -H \"Authorization: Bearer $(cat tendot-data/operator.token)\" -H 'Content-Type: application/json' \\
    -X PUT -d '[{\"index\":1,\"type\":\"URL\",\"data\":\"https://example.org/\"}]' \\
    http://127.0.0.1:8080/api/handles/10.5555/1

Exit codes: 0 ended as asked, 2 the service could not be started.")]
pub(crate) struct ServeArguments {
    /// The directory of all that is kept [default: tendot-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,

    /// The store: `embedded:DIR`, `postgres://user@host/database` or `memory:`
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Where HTTP is answered, or `off` [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,

    /// Where HTTP is answered over TLS, or `off` [default: off]
    #[arg(long, value_name = "ADDR")]
    pub(crate) https: Option<String>,

    /// Where the native protocol is answered, over TCP and UDP, or `off` [default: 127.0.0.1:2641]
    #[arg(long, value_name = "ADDR")]
    pub(crate) native: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Put a few records into the store first, to have something to resolve
    #[arg(long)]
    pub(crate) demo: bool,

    /// When it is ready, print a JSON object with the addresses
    #[arg(long)]
    pub(crate) json: bool,
}

/// Asks for the record of a name, and prints its values
///
/// Without `--server` the Handle System is asked from its root on: who keeps the prefix, then they for the name; over UDP, or
/// else TCP, or else HTTP. The published root is built in; `--root` begins elsewhere.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot resolve 10.1000/182
  tendot resolve --server http://127.0.0.1:8080 10.5555/1
  tendot resolve --server hdl://127.0.0.1:2641 --tcp --type URL 10.5555/1
  tendot resolve --certified --json 10.1000/182 | jq -r '.values[].type'
  tendot resolve --root siteinfo.json 10.5555/1

Exit codes: 0 found, 1 there is no such record or value (told on stderr), 2 that could not be found out.")]
pub(crate) struct ResolveArguments {
    /// The name: a handle, or a DOI name in any written form
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) name: String,

    /// Ask this one and nobody else: `http://…` or `https://…` for JSON, `hdl://HOST[:HANDLE_PORT]` for the native protocol
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// Begin at the sites in this file of Handle.Net: bootstrap_handles, siteinfo.json or root_info. They may lead to private
    /// addresses, which the published root may not
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub(crate) root: Option<PathBuf>,

    /// Over UDP only, or together with `--tcp` over these two
    #[arg(long)]
    pub(crate) udp: bool,

    /// Over TCP only
    #[arg(long)]
    pub(crate) tcp: bool,

    /// Only values of this type; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,

    /// Only the value at this index, beside those of a type; may be repeated
    #[arg(long = "index", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) indexes: Vec<u32>,

    /// Ask who keeps the record, past all caches: for the native protocol a primary site
    #[arg(long)]
    pub(crate) auth: bool,

    /// Believe only what is signed by the server that was asked (native protocol)
    #[arg(long)]
    pub(crate) certified: bool,

    /// The public key of a server at `hdl://…`, as in its file pubkey.bin, for `--certified`
    #[arg(long, value_name = "FILE", requires = "server")]
    pub(crate) server_key: Option<PathBuf>,

    /// Print a JSON object: responseCode, handle, values, from, transport, duration_ms
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows who this service is to others: its record, and what a prefix registry asks for
#[derive(Debug, Subcommand)]
pub(crate) enum SiteArguments {
    Show(SiteShowArguments),
    Export(SiteExportArguments),
    Join(SiteCombineArguments),
}

/// Prints the record of this service's site (HS_SITE) as JSON
///
/// The record, and the key in it, are made at the first start of `tendot serve` in the directory of all data; its serial
/// number goes up whenever something in it has changed at a start.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site show
  tendot site show --data /var/lib/tendot --json | jq .serialNumber

Exit codes: 0 it is printed, 1 there is none yet, 2 it could not be read.")]
pub(crate) struct SiteShowArguments {
    /// The directory of all that is kept [default: tendot-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print it on one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Writes the bundle that a prefix registry asks for, as `sitebndl.zip` of Handle.Net
///
/// It has the record of the site, the public key of the prefix's administrator, and whom to ask. If the directory of all
/// data has no key pair of an administrator (`admpub.bin`, `admpriv.bin`), one is made there; the private key is not in the
/// bundle, and is what the prefix will be administered with.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site export --contact 'Ada Lovelace' --email ada@example.org --organization 'Example Press'
  tendot site export --data /var/lib/tendot bundle.zip

Exit codes: 0 it is written, 1 there is no record yet, 2 it could not be written.")]
pub(crate) struct SiteExportArguments {
    /// The file to be written
    #[arg(value_name = "FILE", default_value = "sitebndl.zip")]
    pub(crate) file: PathBuf,

    /// Whom to ask
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) contact: String,

    /// Where to write to
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    pub(crate) email: String,

    /// Whose service it is
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) organization: String,

    /// The directory of all that is kept [default: tendot-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print a JSON object with the file's name and what is in it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Makes one site of several servers, which share its names
///
/// Each FILE is the record of a server that has been started once on its own: `siteinfo.json` in its directory of all data.
/// The order of the servers is that of the files, and decides, with their number, who keeps which name: names move when it
/// changes. What is written is the record for all of them, whose setting `native.site` says where it is; each knows by its
/// key which one it is. If the file is there already, the serial number goes on from it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot site join one/siteinfo.json two/siteinfo.json three/siteinfo.json --into site.json
  tendot serve --data one --native 192.0.2.1:2641 --set native.site=site.json

Exit codes: 0 it is written, 2 it could not be.")]
pub(crate) struct SiteCombineArguments {
    /// The records of the servers
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// The file to be written
    #[arg(long, value_name = "FILE")]
    pub(crate) into: PathBuf,

    /// Which part of a name decides who keeps it
    #[arg(long, value_name = "PART", default_value = "name")]
    pub(crate) hash: HashOptionArgument,

    /// What the site says of itself
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,

    /// Print the record as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which part of a name decides the server that keeps it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum HashOptionArgument {
    /// All of it
    Name,
    /// What follows the first slash
    Local,
    /// What is before it: all names of a prefix are on one server
    Prefix,
}

/// Shows, checks and writes settings
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigArguments {
    Show(ConfigShowArguments),
    Check(ConfigCheckArguments),
    Init(ConfigInitArguments),
}

/// Shows the settings that hold, and where each comes from
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config show --config /etc/tendot.toml
  TENDOT_HTTP_ADDRESS=off tendot config show --json | jq 'select(.origin != \"default\")'

Exit codes: 0 they are good, 1 they are not (told on stderr).")]
pub(crate) struct ConfigShowArguments {
    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print a JSON object a setting: key, value, origin (default, file, variable, flag), place
    #[arg(long)]
    pub(crate) json: bool,
}

/// Says whether a file of settings is good, and all that is wrong with it
///
/// The files of certificates that it names are read, too.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config check /etc/tendot.toml && systemctl restart tendot

Exit codes: 0 it is good, 1 it is not (told on stderr, with the line), 2 it could not be read.")]
pub(crate) struct ConfigCheckArguments {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print a JSON object for each thing to be told: severity (error, warning), line, message
    #[arg(long)]
    pub(crate) json: bool,
}

/// Writes a file that has every setting, its default, and what it is about
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config init tendot.toml

Exit codes: 0 done, 2 the file could not be written, or is there already.")]
pub(crate) struct ConfigInitArguments {
    /// The file [default: standard output]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Says step by step why a name does or does not resolve here
///
/// NAME is anything that the box of the service's page takes. The store is only read, also while a server writes it. Each
/// line is a step that is ok or not, with what can be done about it; a name resolves when the service would redirect it.
/// Names that are not kept here are asked for as the setting `upstream` says.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot doctor 10.1000/182
  tendot doctor --json https://doi.org/10.1000%2F182
  tendot doctor --set upstream=https://doi.org 10.1000/182

Exit codes: 0 it resolves, 1 it does not, 2 that could not be found out.")]
pub(crate) struct ExplainArguments {
    /// The name, in any written form
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print one JSON object: values, places and all steps
    #[arg(long)]
    pub(crate) json: bool,
}

/// Puts records into a store
///
/// Any handle name is taken. Given timestamps and the order of values are kept, and the prefix of every record is homed.
/// A line that is no record, or could break an answer, is refused and told; the others go in. The server has to be
/// stopped meanwhile, unless the store is a database.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot import records.jsonl
  tendot export --data old | tendot import --data new
  tendot import --dry-run names.csv
  tendot import --format handle-net dump.json
  tendot import --format handle-batch create.txt
  tendot import --store postgres://tendot@db.example.org/tendot records.jsonl

Formats: a name that ends in .csv, .txt (handle-batch), or .json (handle-net, if it begins as one) tells the format;
everything else is jsonl.

Exit codes: 0 all are in, 1 some were refused (told on stderr, the others are in), 2 it was not finished (the same import
again does the rest).")]
pub(crate) struct ImportArguments {
    /// Files to read; `-` is standard input [default: -]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// The format of the files [default: by their names]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<ImportFormat>,

    /// Check everything and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Leave it as it is which prefixes are homed here
    #[arg(long)]
    pub(crate) no_home: bool,

    /// Take only the names that this server keeps of those of its site, whose record is in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: created, changed, unchanged, superseded, refused, warnings, seconds; elsewhere, with
    /// `--site`
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints all records of a store
///
/// One JSON object a line, in the order of names, with all values, also those that are not public: keys and passwords
/// are among them. Works beside a running server. A file is replaced only when all is written.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot export > records.jsonl
  tendot export --data /var/lib/tendot records.jsonl
  tendot export --format csv | head
  tendot export --store postgres://tendot@db.example.org/tendot > records.jsonl

Exit codes: 0 done, 2 it could not be carried out.")]
pub(crate) struct ExportArguments {
    /// Where to; `-` is standard output [default: -]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    pub(crate) format: ExportFormat,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Changes nothing: the records are JSON objects already
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// A format that records are printed in.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ExportFormat {
    /// a JSON object a line: `{"handle": …, "values": […]}`
    Jsonl,
    /// name,url: the first URL; records that have none are left out and counted on stderr
    Csv,
}

/// Moves all of a store to another one
///
/// Records with their revisions, the log, histories, notes and homed prefixes: who follows the changes or has kept an answer
/// notices nothing. A server may write the source meanwhile. What has changed since is copied, too, and at the end both are
/// compared, record by record; then it says up to which change the target is the source. Stop the source's server and run the
/// same once more: it copies and compares what is new, which takes little time. Then start the target's server.
///
/// What was interrupted goes on when the same command is given again; until it is finished, the target is refused by all
/// other commands. A target that has something else in it is left as it is.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot migrate --from embedded:/var/lib/tendot --to postgres://tendot@db.example.org/tendot
  tendot migrate --from postgres://tendot@db.example.org/tendot --to embedded:/var/lib/tendot
  tendot migrate --from embedded:old --to embedded:new

Exit codes: 0 the target is whole, 1 something is not the same (told on stdout), 2 it could not be carried out.")]
pub(crate) struct MigrateArguments {
    /// The store that is moved: `embedded:DIR` or `postgres://user@host/database`
    #[arg(long, value_name = "STORE")]
    pub(crate) from: String,

    /// Where it is moved to: a new or empty directory or database, or what an earlier run made
    #[arg(long, value_name = "STORE")]
    pub(crate) to: String,

    /// Compare everything, also what an earlier run has compared
    #[arg(long)]
    pub(crate) compare_all: bool,

    /// Print a JSON object: resumed, revision, sequence; records, lines, history, notes (copied); compared; notes_changing;
    /// different, differences; seconds
    #[arg(long)]
    pub(crate) json: bool,
}

/// Writes a consistent copy of a store into a file
///
/// Works beside a running server. The file has a checksum, is read and checked after it was written, and replaces
/// another one only then.
///
/// A store in a database is moved to an embedded one first, in the folder of the file, which takes as much room again as
/// the file; so the backup can be restored to either. What was interrupted goes on when it is done again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot backup tendot-2026-01-31.backup
  tendot backup --data /var/lib/tendot /mnt/backup/tendot.backup
  tendot backup --store postgres://tendot@db.example.org/tendot tendot.backup

Exit codes: 0 done, 2 it could not be carried out.")]
pub(crate) struct BackupArguments {
    /// Where to
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: bytes
    #[arg(long)]
    pub(crate) json: bool,
}

/// Makes a store of a backup
///
/// The backup is read and checked before anything is replaced. The server has to be stopped meanwhile.
///
/// For a store in a database, an embedded one is made of it first, in the folder for temporary files, and then moved. The
/// database has to be empty.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot restore --data restored tendot-2026-01-31.backup
  tendot restore --force tendot-2026-01-31.backup
  tendot restore --store postgres://tendot@db.example.org/empty tendot.backup

Exit codes: 0 done, 2 it could not be carried out (nothing was replaced).")]
pub(crate) struct RestoreArguments {
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Move a store that is there aside, into `DIR/old-…`
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: directory, moved_to
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads all of a store, and tells what is damaged
///
/// Works beside a running server. Of a store in a database all rows are read and compared with each other; they have no
/// checksums of ours.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot verify
  tendot verify --data /var/lib/tendot --json
  tendot verify --store postgres://tendot@db.example.org/tendot

Exit codes: 0 all is right, 1 something is damaged (told on stdout), 2 the store could not be opened.")]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object for each damage, and one that counts what was read
    #[arg(long)]
    pub(crate) json: bool,

    /// Read the store in this process, whatever becomes of it
    #[arg(long, hide = true)]
    pub(crate) in_this_process: bool,
}

/// Shows what native messages and values are made of
#[derive(Args, Debug)]
pub(crate) struct DebugArguments {
    #[command(subcommand)]
    pub(crate) command: DebugCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    Message(DebugMessageArguments),
    Value(DebugValueArguments),
}

/// Decodes a message of the native Handle protocol, given in hexadecimal
///
/// What follows the first message is taken for further ones, as over TCP. A datagram that is part of a message is
/// shown as such, and after the last of them the message. An encrypted message is shown as far as there is a key.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot debug message '020b020b 00000000 01020304 00000000 00000021 00000002 00000000
                        19000000 00010000 65000000 00000005 00000001 2f 00000000'
  xxd -p -c0 captured.bin | tendot debug message --json | jq .body.handle
  tendot debug message --public-key pubkey.bin \"$SIGNED\"

Exit codes: 0 decoded, 1 decoded but a credential is wrong, 2 malformed (told with the field and its place).")]
pub(crate) struct DebugMessageArguments {
    /// The bytes of a message [default: a message on each line of standard input]
    #[arg(value_name = "HEX")]
    pub(crate) hex: Vec<String>,

    /// Encode what was decoded, and print that in hexadecimal
    #[arg(long, conflicts_with = "json")]
    pub(crate) reencode: bool,

    /// Decrypt messages and check MACs with this key of their session, 32 bytes in hexadecimal
    #[arg(long, value_name = "HEX")]
    pub(crate) session_key: Option<String>,

    /// Check signatures with the public key in this file, as Handle.Net writes it
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Option<PathBuf>,

    /// Print one JSON object a message
    #[arg(long)]
    pub(crate) json: bool,
}

/// Decodes the data of a value, given in hexadecimal
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot debug value HS_ADMIN 07f300000007302e4e412f3130000000c8
  tendot debug value --json HS_VLIST 0000000100000007302e4e412f313000000000

Exit codes: 0 decoded, 2 malformed (told with the field and its place).")]
pub(crate) struct DebugValueArguments {
    /// The type, such as HS_ADMIN, HS_SITE or HS_PUBKEY; data of types that are not known is shown as it is
    #[arg(value_name = "TYPE")]
    pub(crate) value_type: String,

    /// The bytes of the data [default: standard input]
    #[arg(value_name = "HEX")]
    pub(crate) hex: Option<String>,

    /// Encode what was decoded, and print that in hexadecimal
    #[arg(long, conflicts_with = "json")]
    pub(crate) reencode: bool,

    /// Print a JSON object: type, format and value as in records
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the script that completes this command's arguments in a shell
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot completions bash > /etc/bash_completion.d/tendot
  tendot completions zsh > ~/.zfunc/_tendot")]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub(crate) shell: Shell,
}

/// Prints the manual page, or writes one for each command
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot man | man -l -
  tendot man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArguments {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// A form that `--as` takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputFormArgument(pub(crate) OutputForm);

impl ValueEnum for OutputFormArgument {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [OutputFormArgument; OutputForm::ALL.len()] = {
            let mut all = [OutputFormArgument(OutputForm::Name); OutputForm::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = OutputFormArgument(OutputForm::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            OutputForm::Name => "as written, decoded",
            OutputForm::Canonical => "ASCII letters in upper case, the comparison key",
            OutputForm::Uri => "doi: URI of the June 2024 draft",
            OutputForm::Uri202411 => "doi: URI as published in November 2024",
            OutputForm::Uri2003 => "canonical doi: URI of the 2003 draft",
            OutputForm::Urn => "urn:doi:",
            OutputForm::Url => "https://doi.org/…, readable",
            OutputForm::UrlMinimal => "https://doi.org/…, only what must be is encoded",
            OutputForm::UrlFull => "https://doi.org/…, encoded as in uri",
            OutputForm::Info => "info:doi/",
            OutputForm::Display => "doi: and the bare name",
            OutputForm::Eidr => "urn:eidr:, for EIDR prefixes",
            OutputForm::Html => "a link",
            _ => "",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

/// A rule set that `--rules` takes.
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
