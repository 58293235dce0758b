//! The control socket: other verbs (and the target itself) ask the recording questions.
//!
//! One request a connection, one line of JSON each way: `{"do":"status"}`, `{"do":"mark","line":"step 3"}`.
//! The socket is 0600 in a private directory with a short path (`sun_path` ends at 108 bytes).

use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
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
/// A client that does not finish its line in this time is not worth a late tick.
const PATIENCE: Duration = Duration::from_millis(20);
const LONGEST_REQUEST: u64 = 64 << 10;
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
        Ok(Self { listener, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn descriptor(&self) -> i32 {
        self.listener.as_raw_fd()
    }

    /// Answers some of those who wait: a flood of them must not keep us from sampling.
    pub fn answer(&self, mut respond: impl FnMut(Request) -> Value) {
        for _ in 0..CLIENTS_AT_ONCE {
            let Ok((stream, _)) = self.listener.accept() else { return };
            let _ = serve(&stream, &mut respond);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(stream: &UnixStream, respond: &mut impl FnMut(Request) -> Value) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let in_time = InTime { stream, until: Instant::now() + PATIENCE };
    let mut line = String::new();
    BufReader::new(in_time.take(LONGEST_REQUEST)).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Ok(request) => respond(request),
        Err(error) => {
            json!({"error": error.to_string(), "hint": "{\"do\":\"status\"} or {\"do\":\"mark\",\"line\":\"step 3\"}"})
        }
    };
    stream.set_nonblocking(false)?;
    writeln!(&*stream, "{answer}")
}

/// What a client sends up to a moment, however slowly it comes.
struct InTime<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Read for InTime<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        // What is there is read even if it was us who came late: whoever has sent a line gets an answer.
        self.stream.set_nonblocking(left.is_zero())?;
        self.stream.set_read_timeout(Some(left).filter(|left| !left.is_zero()))?;
        let mut stream = self.stream;
        stream.read(into)
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
    use super::*;

    #[test]
    fn requests_are_one_line_of_json() {
        assert_eq!(serde_json::from_str::<Request>(r#"{"do":"status"}"#).unwrap(), Request::Status);
        let mark = serde_json::from_str(r#"{"do":"mark","line":"step 3"}"#).unwrap();
        assert_eq!(Request::Mark { line: "step 3".into() }, mark);
    }

    #[test]
    fn a_crowd_is_answered_in_turns() {
        // Not where others look for sockets that were left behind.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crowd.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let control = Control { listener, path };
        let ask = |_| {
            let client = UnixStream::connect(control.path()).unwrap();
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
    fn a_client_that_dawdles_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let client = std::thread::spawn(move || {
            while (&theirs).write_all(b" ").is_ok() {
                std::thread::sleep(PATIENCE / 4);
            }
        });
        assert!(serve(&ours, &mut |_: Request| json!("asked")).is_err());
        drop(ours);
        client.join().unwrap();
    }

    #[test]
    fn what_was_sent_before_we_came_too_late_is_read_and_nothing_is_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut late = InTime { stream: &ours, until: Instant::now() };
        let mut bytes = [0; 8];
        writeln!(&theirs, "line").unwrap();
        assert_eq!(late.read(&mut bytes).unwrap(), 5);
        assert_eq!(late.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_client_is_answered_and_a_wrong_one_is_told_how() {
        let control = Control::open(-(std::process::id() as i32)).unwrap();
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
