//! One boot under qemu, emulated: KVM hangs on some machines, among them the project's, so it is never tried.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::serial::{self, Verdict};

/// A guest that has not ended by then hangs; a loaded machine needs a minute.
const DEADLINE: Duration = Duration::from_secs(420);
/// The memory that the kernel uses is a multiple of 64 pages: of a partial word the idle bitmap says nothing.
const MEMORY_MIB: u32 = 768;
const KERNEL_LINE: &str = "console=ttyS0 loglevel=1 panic=-1 mem=752M";

/// Boots, passes on what the guest says, and keeps all of it beside the initramfs.
pub fn run(kernel: &Path, initramfs: &Path, only: Option<&str>) -> Result<Verdict> {
    let mut child = start(kernel, initramfs, only)?;
    let said = listen(&mut child)?;
    child.wait()?;
    let log = initramfs.with_file_name("serial.log");
    fs::write(&log, &said).with_context(|| format!("cannot write {}", log.display()))?;
    let verdict = serial::parse(&said);
    if !verdict.is_good() {
        println!("all that the guest said: {}", log.display());
    }
    Ok(verdict)
}

fn start(kernel: &Path, initramfs: &Path, only: Option<&str>) -> Result<Child> {
    let only = only.map(|name| format!(" only={name}")).unwrap_or_default();
    Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", &MEMORY_MIB.to_string()])
        .args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", &format!("{KERNEL_LINE}{only}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start qemu-system-x86_64")
}

/// Until the port closes; at the deadline the guest is ended.
fn listen(child: &mut Child) -> Result<String> {
    let port = child.stdout.take().context("the serial port is piped")?;
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || pass_on(port, &sender));
    let end = Instant::now() + DEADLINE;
    let mut said = String::new();
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                println!("  {line}");
                said += &line;
                said.push('\n');
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                println!("no end after {} s: the guest is ended", DEADLINE.as_secs());
                child.kill()?;
                break;
            }
        }
    }
    reader.join().ok();
    Ok(said)
}

fn pass_on(port: impl Read, to: &mpsc::Sender<String>) {
    for line in BufReader::new(port).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if to.send(line).is_err() {
            return;
        }
    }
}
