use std::io::Write as _;
use std::process::Command;

/// A command that runs one test of the current test program, by its full name such as `process_kill::child_writes`, in a
/// process that the caller may limit or kill.
pub fn child_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command
}

/// Prints a line that ends with ` .` for [`emitted_lines`]; the end tells complete lines from those that a kill cut off.
pub fn emit(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // The reader may be gone.
    let _ = writeln!(stdout, "\n{line} .");
    let _ = stdout.flush();
}

/// The complete lines that a child printed with [`emit`], without their ends.
pub fn emitted_lines(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.strip_suffix(" ."))
}
