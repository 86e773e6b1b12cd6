//! Help texts, man pages, shell completions and usage errors.

use std::fs;
use std::process::Output;

use crate::names::check;
use crate::support::{TestDir, tendot};

fn run(arguments: &[&str]) -> Output {
    tendot().args(arguments).output().unwrap()
}

/// A misspelled flag is not a name, and flags may follow names.
#[test]
fn flags_and_names() {
    let output = run(&["name", "10.1000/182", "--jsn"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("unexpected argument '--jsn'") && stderr.contains("'--json'"), "{stderr}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    check(&["name", "10.1000/182", "--as", "url"], "", 0, "https://doi.org/10.1000/182\n", "");
    check(&["name", "--as", "name", "--", "10.1000/182"], "", 0, "10.1000/182\n", "");
}

/// Ctrl-C at a prompt for a secret ends the command, and the terminal echoes again. Python opens the terminal.
#[test]
fn interrupted_prompt_restores_the_terminal() {
    let script = r#"
import os, pty, signal, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    # A shell ignores it in background jobs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(sys.argv[1], [sys.argv[1], "handle", "show", "10.5555/x", "--server", "http://127.0.0.1:1", "--auth", "300:0.NA/10.5555"])
shown = b""
while b"Secret key" not in shown or not shown.endswith(b": "):
    shown += os.read(terminal, 1000)
while termios.tcgetattr(terminal)[3] & termios.ECHO:
    pass
os.write(terminal, b"half\x03")
try:
    while os.read(terminal, 1000):
        pass
except OSError:
    pass
_, status = os.waitpid(pid, 0)
print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1, bool(termios.tcgetattr(terminal)[3] & termios.ECHO))
"#;
    let program = tendot().get_program().to_owned();
    let output = std::process::Command::new("python3").args(["-c", script]).arg(program).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout, "2 True\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn usage_error_exits_2() {
    for arguments in [
        &["nonsense"][..],
        &["name", "--as", "nonsense", "x"],
        &["same", "10.1000/1"],
        &["extract", "--threads", "0"],
        &["name", "--jsno", "10.1000/1"],
        &["resolve", "--certified", "10.1000/1"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error:"), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn help_completions_and_manual() {
    let registry = ["agency", "registrant", "prefix", "doi", "transfer", "token", "report"];
    for command in ["name", "same", "extract", "completions", "man"].into_iter().chain(registry) {
        let output = run(&[command, "--help"]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("Examples:"), "{command}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(&["completions", shell]);
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(["extract", "registrant", "transfer"].iter().all(|word| script.contains(word)), "{shell}");
    }
    let dir = TestDir::new();
    check(&["man", "--dir", dir.path().to_str().unwrap()], "", 0, "", "");
    let page = fs::read_to_string(dir.path().join("tendot-extract.1")).unwrap();
    assert!(page.contains(".TH tendot-extract 1"), "{page}");
    assert!(page.contains("join\\-lines"), "{page}");
    assert!(dir.path().join("tendot.1").exists());
    let page = fs::read_to_string(dir.path().join("tendot-doi-import.1")).unwrap();
    assert!(page.contains("dry\\-run") && page.contains("TENDOT_TOKEN"), "{page}");
    assert!(String::from_utf8_lossy(&run(&["man"]).stdout).contains(".TH tendot 1"));
}

#[test]
fn top_level_help_groups_commands() {
    let output = run(&["--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    let (names, rest) = help.split_once("\nResolution:\n").unwrap();
    assert!(names.contains("\nNames:\n  name ") && names.contains("\n  extract "), "{help}");
    assert!(rest.contains("\nRegistry:\n  agency ") && rest.contains("\n  transfer "), "{help}");
    assert!(help.contains("\nOptions:\n  -h, --help"), "{help}");
    assert!(help.contains("\nExit codes: 0 success, 1 negative result, 2 error\n"), "{help}");
    assert!(!help.contains("reference"), "{help}");
}

/// Options of a command are grouped in its help.
#[test]
fn help_has_headings() {
    let check = |command: &[&str], headings: &[&str]| {
        let help = String::from_utf8(run(&[command, &["--help"]].concat()).stdout).unwrap();
        for heading in headings {
            assert!(help.contains(&format!("\n{heading}:\n")), "{heading}: {help}");
        }
    };
    check(&["doi", "create"], &["Options", "Connection", "Output"]);
    check(&["backup"], &["Store", "Output"]);
    check(&["explain"], &["Store", "Configuration", "Output"]);
}

#[test]
fn help_has_examples() {
    for command in ["import", "export", "backup", "restore", "verify"] {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).unwrap();
        assert!(
            help.contains(&format!("Examples:\n  tendot {command}")) && help.contains("Exit codes: 0"),
            "{help}"
        );
    }
}
