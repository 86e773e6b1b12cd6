//! The JSON of the registry, as it is described: `tendot_registry` knows nothing of descriptions.

use crate::http::api::in_file;

/// All of them.
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
