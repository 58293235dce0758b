//! The control socket: other verbs (and the target itself) ask the recording questions.
//!
//! One request a connection, one line of JSON each way: `{"do":"status"}`, `{"do":"mark","line":"step 3"}`.
//! The socket is 0600 in a private directory with a short path (`sun_path` ends at 108 bytes).

use std::fs::DirBuilder;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nilometer_kernel::sys::limits::effective_uid;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::allocs::Act;

/// Variable that names the socket to the target.
pub const CONTROL_VARIABLE: &str = "NILO_CONTROL";
/// A client that does not finish its line in this time is not worth a late tick: it is looked at again soon,
const PATIENCE: Duration = Duration::from_millis(20);
/// until then. On a machine at work it may be long between a program's connecting and its next words.
const LONGEST_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_REQUEST: usize = 64 << 10;
const CLIENTS_AT_ONCE: usize = 16;

/// What can be asked.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Where the recording stands.
    Status,
    /// A line as in the marks file.
    Mark { line: String },
    /// A census of a process of the tree into a new file; when it fails, into one that ends in `.error` instead.
    Heap { pid: i32, path: PathBuf },
    /// Switches the recording of allocations: `off`, `sampled`, `all`, `deep`.
    Mode { mode: String },
    /// A ledger of a process of the tree, in the same way, as JSON.
    Ledger { pid: i32, path: PathBuf },
    /// The high-water mark of a process of the tree; it is stored, then begins anew.
    Peak { pid: i32 },
    /// A stretch of a process's allocations: `open`, `look`, `close`. The answer becomes a new file, with the `top` sites.
    Window {
        pid: i32,
        act: Act,
        path: PathBuf,
        #[serde(default)]
        top: usize,
    },
}

#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// Who connected and has not said yet what it wants; at most as many as are answered at once.
    late: Vec<Client>,
}

impl Control {
    /// Listens for the recording of `pid`.
    pub fn open(pid: i32) -> std::io::Result<Self> {
        let directory = private_directory()?;
        remove_abandoned(&directory);
        let path = path_in(&directory, pid);
        let _ = std::fs::remove_file(&path); // of a process that had our pid and was killed
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path, late: Vec::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn descriptor(&self) -> i32 {
        self.listener.as_raw_fd()
    }

    /// Somebody has to be looked at again although nobody new comes.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Answers some of those who wait: a flood of them must not keep us from sampling.
    pub fn answer(&mut self, mut respond: impl FnMut(Request) -> Value) {
        for client in std::mem::take(&mut self.late) {
            self.attend(client, Duration::ZERO, &mut respond);
        }
        for _ in 0..CLIENTS_AT_ONCE {
            let Ok((stream, _)) = self.listener.accept() else { return };
            self.attend(Client::new(stream), PATIENCE, &mut respond);
        }
    }

    fn attend(&mut self, mut client: Client, patience: Duration, respond: &mut impl FnMut(Request) -> Value) {
        match client.listen(patience) {
            Ok(true) => drop(client.answer(respond)), // who has gone needs none
            Ok(false) if client.since.elapsed() < LONGEST_PATIENCE && self.late.len() < CLIENTS_AT_ONCE => {
                self.late.push(client);
            }
            Ok(false) | Err(_) => {}
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Somebody who connected, and what it has sent so far.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    line: Vec<u8>,
    since: Instant,
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        Self { stream, line: Vec::new(), since: Instant::now() }
    }

    /// Takes what it sends, no longer than this: true when its line is whole.
    fn listen(&mut self, patience: Duration) -> std::io::Result<bool> {
        let until = Instant::now() + patience;
        let mut part = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // What is there is read even if it was us who came late: whoever has sent a line gets an answer.
            self.stream.set_nonblocking(left.is_zero())?;
            self.stream.set_read_timeout(Some(left).filter(|left| !left.is_zero()))?;
            let bytes = match self.stream.read(&mut part) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(false);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            self.line.extend_from_slice(&part[..bytes]);
            if bytes == 0 || part[..bytes].contains(&b'\n') || self.line.len() >= LONGEST_REQUEST {
                return Ok(true);
            }
        }
    }

    fn answer(&self, respond: &mut impl FnMut(Request) -> Value) -> std::io::Result<()> {
        let line = self.line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let answer = match serde_json::from_slice(line) {
            Ok(request) => respond(request),
            Err(error) => {
                json!({"error": error.to_string(), "hint": "{\"do\":\"status\"} or {\"do\":\"mark\",\"line\":\"step 3\"}"})
            }
        };
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(PATIENCE))?;
        writeln!(&self.stream, "{answer}")
    }
}

/// Where the recording by process `pid` listens, if it is one of this user.
pub fn socket_of(pid: i32) -> Option<PathBuf> {
    let path = path_in(&private_directory().ok()?, pid);
    path.exists().then_some(path)
}

fn path_in(directory: &Path, pid: i32) -> PathBuf {
    directory.join(format!("{pid}.sock"))
}

/// Sockets of recordings that were killed: their process is gone and nobody listens. (A process of another
/// namespace that shares the directory cannot be seen, but it listens.)
fn remove_abandoned(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let sockets = entries.filter(|path| path.extension().is_some_and(|ending| ending == "sock"));
    for path in sockets {
        let runs = path.file_stem().is_some_and(|pid| Path::new("/proc").join(pid).exists());
        if !runs && UnixStream::connect(&path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// `$XDG_RUNTIME_DIR/nilo` or `/tmp/nilo-UID`: ours alone, or not used.
pub fn private_directory() -> std::io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty() && v.len() < 60);
    let directory = match runtime {
        Some(runtime) if Path::new(&runtime).is_dir() => Path::new(&runtime).join("nilo"),
        _ => PathBuf::from(format!("/tmp/nilo-{}", effective_uid())),
    };
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let metadata = std::fs::symlink_metadata(&directory)?;
    let ours =
        metadata.is_dir() && metadata.uid() == effective_uid() && metadata.mode().trailing_zeros() >= 6;
    if ours { Ok(directory) } else { Err(ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    #[test]
    fn requests_are_one_line_of_json() {
        assert_eq!(serde_json::from_str::<Request>(r#"{"do":"status"}"#).unwrap(), Request::Status);
        let mark = serde_json::from_str(r#"{"do":"mark","line":"step 3"}"#).unwrap();
        assert_eq!(Request::Mark { line: "step 3".into() }, mark);
    }

    /// Not where others look for sockets that were left behind.
    fn control() -> (tempfile::TempDir, Control) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        (folder, Control { listener, path, late: Vec::new() })
    }

    #[test]
    fn a_crowd_is_answered_in_turns() {
        let (_folder, mut control) = control();
        let ask = |_| {
            let client = UnixStream::connect(&control.path).unwrap();
            writeln!(&client, "{{\"do\":\"status\"}}").unwrap();
            client
        };
        let clients: Vec<UnixStream> = (0..CLIENTS_AT_ONCE + 3).map(ask).collect();
        let mut answered = 0;
        for expected in [CLIENTS_AT_ONCE, clients.len(), clients.len()] {
            control.answer(|_| {
                answered += 1;
                json!("fine")
            });
            assert_eq!(answered, expected);
        }
    }

    /// A byte now and then would keep the recording from its ticks for as long as the client likes.
    #[test]
    fn a_client_that_dawdles_is_waited_for_a_moment_at_a_time() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut client = Client::new(ours);
        let dawdler = std::thread::spawn(move || {
            while (&theirs).write_all(b" ").is_ok() {
                std::thread::sleep(PATIENCE / 4);
            }
        });
        assert!(!client.listen(PATIENCE).unwrap());
        drop(client);
        dawdler.join().unwrap();
    }

    #[test]
    fn who_connects_and_speaks_late_is_answered_all_the_same() {
        let (_folder, mut control) = control();
        let client = UnixStream::connect(control.path()).unwrap();
        control.answer(|_| json!("asked"));
        assert!(control.has_late());
        for part in ["{\"do\":", "\"status\"}\n"] {
            (&client).write_all(part.as_bytes()).unwrap();
            control.answer(|request| json!(request == Request::Status));
        }
        assert!(!control.has_late());
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).unwrap();
        assert_eq!(answer, "true\n");
    }

    #[test]
    fn who_is_late_too_long_or_one_too_many_or_gone_is_let_go() {
        let (_folder, mut control) = control();
        let mut attend = |since| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            control.attend(Client { since, ..Client::new(ours) }, Duration::ZERO, &mut |_| json!("asked"));
            (theirs, control.late.len())
        };
        let now = Instant::now();
        assert_eq!(attend(now.checked_sub(LONGEST_PATIENCE).unwrap()).1, 0);
        let clients: Vec<_> = (0..=CLIENTS_AT_ONCE).map(|_| attend(now)).collect();
        assert_eq!(clients.last().unwrap().1, CLIENTS_AT_ONCE);
        drop(clients);
        control.answer(|_| json!("asked"));
        assert!(!control.has_late());
    }

    #[test]
    fn what_was_sent_before_we_came_too_late_is_read_and_nothing_is_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut client = Client::new(ours);
        assert!(!client.listen(Duration::ZERO).unwrap());
        writeln!(&theirs, "line").unwrap();
        assert!(client.listen(Duration::ZERO).unwrap());
        assert_eq!(client.line, b"line\n");
    }

    #[test]
    fn a_client_is_answered_and_a_wrong_one_is_told_how() {
        let mut control = Control::open(-(std::process::id() as i32)).unwrap();
        for (question, expected) in [("{\"do\":\"status\"}", "\"fine\""), ("nonsense", "hint")] {
            let client = UnixStream::connect(control.path()).unwrap();
            writeln!(&client, "{question}").unwrap();
            control.answer(|request| {
                assert_eq!(request, Request::Status);
                json!("fine")
            });
            let mut answer = String::new();
            BufReader::new(client).read_line(&mut answer).unwrap();
            assert!(answer.contains(expected), "{answer}");
        }
        let path = control.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(control);
        assert!(!path.exists());
    }
}
