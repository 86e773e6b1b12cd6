//! Reference of the settings and environment variables.

use std::fmt::Write as _;

use super::{GENERATED_NOTICE, table_cell};
use crate::config::SETTINGS;

/// Page with one table per section of the configuration file.
pub(super) fn page() -> String {
    let mut page = format!(
        "{GENERATED_NOTICE}\n\n# Settings\n\n\
         Settings of `tendot serve` come from four sources; the later ones override the earlier ones. Commands on a store find it in the same \
         way.\n\n\
         1. defaults\n\
         2. a TOML file: `--config FILE` or `TENDOT_CONFIG`\n\
         3. environment variables: `TENDOT_` and the name of the setting in upper case, with `_` for `.`\n\
         4. flags: `--set KEY=VALUE`, and `--data`, `--store`, `--http`, `--https`, `--native`\n\n\
         `tendot config init` writes a file with all settings, `tendot config check` validates one, and `tendot config show` prints \
         the effective settings with their sources. Unknown settings and variables are errors.\n\n\
         Durations have a unit: `500ms`, `10s`, `5min`, `1h`; at most 24 hours. Sizes, too: `64KiB`, `1MiB`, `2GiB`. In variables and \
         flags, a list is separated by commas: `TENDOT_HTTP_TRUSTED_PROXIES=10.0.0.0/8,192.0.2.1`.\n"
    );
    let mut section = None;
    for spec in SETTINGS {
        let name = spec.name.rsplit_once('.').map_or("", |(section, _)| section);
        if section != Some(name) {
            let title = if name.is_empty() { "General".to_owned() } else { format!("`[{name}]`") };
            let _ = writeln!(
                page,
                "\n## {title}\n\n| setting, variable | default | description |\n|---|---|---|"
            );
            section = Some(name);
        }
        let _ = writeln!(
            page,
            "| `{}`<br>`{}` | `{}` | {} |",
            spec.name,
            spec.env_name(),
            spec.default_literal(),
            table_cell(spec.description)
        );
    }
    page += "\n## Other environment variables\n\n\
             | variable | effect |\n|---|---|\n\
             | `TENDOT_CONFIG` | Configuration file, as `--config`. |\n\
             | `TENDOT_SERVER` | Server URL of the commands that use one, as `--server`. |\n\
             | `TENDOT_TOKEN` | API token of the registry commands, as `--token`. |\n\
             | `TENDOT_TOKEN_FILE` | File with the API token, as `--token-file`. |\n\
             | `LISTEN_FDS`, `LISTEN_FDNAMES` | Sockets passed by systemd; they replace `http.address`, `https.address` and `native.address`. |\n\
             | `NOTIFY_SOCKET` | Socket for `sd_notify` (systemd, `Type=notify`). |\n\
             | `TMPDIR` | Directory for temporary files. |\n\
             | `NO_COLOR`, `CLICOLOR_FORCE` | Disable or force colors on the terminal. |\n\n\
             Ignored: `TENDOT_SERVICE_*`, `TENDOT_PORT` and `TENDOT_PORT_*`, which Kubernetes sets for a service named `tendot`, and \
             `TENDOT_TEST_*`.\n";
    page
}
