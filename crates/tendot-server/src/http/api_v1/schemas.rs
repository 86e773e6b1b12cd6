//! OpenAPI schemas of the registry API, from `schemas.json`: the types of `tendot_registry` have no schemas.

use crate::http::handle_api::in_file;

/// All schemas.
const SCHEMAS: &str = include_str!("schemas.json");

in_file!(SCHEMAS: AgencyForm "Agency", AgencyListForm "AgencyList", NewAgencyForm "NewAgency",
    AgencyUpdateForm "AgencyUpdate", RegistrantForm "Registrant", RegistrantListForm "RegistrantList",
    NewRegistrantForm "NewRegistrant", RegistrantUpdateForm "RegistrantUpdate", PrefixForm "Prefix",
    PrefixListForm "PrefixList", NewPrefixForm "NewPrefix", PrefixUpdateForm "PrefixUpdate",
    CreatedTokenForm "CreatedToken", TokenListForm "TokenList", NewTokenForm "NewToken", DoiForm "Doi",
    DoiListForm "DoiList", NewDoiForm "NewDoi", DoiUpdateForm "DoiUpdate", BatchLineForm "BatchLine",
    TransferForm "Transfer", TransferListForm "TransferList", NewTransferForm "NewTransfer",
    ReportForm "Report", ResolvedNameForm "ResolvedName", NeverResolvedForm "NeverResolved", FailedResolutionForm "FailedResolution", InvalidLinkForm "InvalidLink",
    ConfusableNameForm "ConfusableName");
