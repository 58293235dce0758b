//! A real notebook in an ordinary kernel.

use std::process::Command;

use crate::harness::{Lab, finish, nilo_binary, text};
use crate::interpreter::{framework, package, program};

#[test]
fn cells_tell_their_memory() {
    let Some(python) = framework("tools") else { return };
    let lab = Lab::new();
    let mut command = Command::new(python);
    command.arg(program("notebook.py")).env("PYTHONPATH", package()).env("NILO_BINARY", nilo_binary());
    command.current_dir(lab.path("")).env_remove("NILO_MARKS").env("IPYTHONDIR", lab.path("ipython"));
    let output = finish(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
}
