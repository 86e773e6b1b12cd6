use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// The path of the program.
pub(crate) const TENDOT: &str = env!("CARGO_BIN_EXE_tendot");

/// The program, with an empty standard input and without colours.
pub(crate) fn tendot() -> Command {
    let mut command = Command::new(TENDOT);
    command.env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

/// A program with arguments that runs a command, such as `prlimit`.
pub(crate) fn run_by(program: &[&str], command: &Command) -> Command {
    let mut runner = Command::new(program[0]);
    runner.args(&program[1..]).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => runner.env(name, value),
            None => runner.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        runner.current_dir(dir);
    }
    runner
}

/// Exit code, standard output and standard error.
pub(crate) fn text_output(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs a command with this standard input, which it may stop reading early.
pub(crate) fn output_with_input(command: &mut Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    })
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
