//! OpenAPI schemas of the registry API, from a JSON file: `tendot_registry` has no schemas.

use crate::http::handle_api::in_file;

/// All schemas.
const SCHEMAS: &str = include_str!("schemas.json");

in_file!(SCHEMAS: AgencyForm "Agency", AgencyListForm "AgencyList", NewAgencyForm "NewAgency",
    AgencyChangeForm "AgencyChange", RegistrantForm "Registrant", RegistrantListForm "RegistrantList",
    NewRegistrantForm "NewRegistrant", RegistrantChangeForm "RegistrantChange", PrefixForm "Prefix",
    PrefixListForm "PrefixList", NewPrefixForm "NewPrefix", PrefixChangeForm "PrefixChange",
    MadeTokenForm "MadeToken", TokenListForm "TokenList", NewTokenForm "NewToken", ResolveFormSchema "Name",
    NameListForm "NameList", NewNameForm "NewName", NameChangeForm "NameChange", BatchLineForm "BatchLine",
    TransferForm "Transfer", TransferListForm "TransferList", NewTransferForm "NewTransfer",
    ReportForm "Report", ResolvedNameForm "ResolvedName", NeverResolvedForm "NeverResolved", FailedNameForm "FailedName", OddLinkForm "OddLink",
    ConfusableNameForm "ConfusableName");
