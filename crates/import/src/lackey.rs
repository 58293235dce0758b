//! Address traces of valgrind's lackey (`valgrind --tool=lackey --trace-mem=yes`): every access of a program, in its order.
//!
//! A line is an access, ` L 1ffeff7e60,8`, or a message of valgrind, `==4711== …`. Traces have gigabytes, so one is read as a
//! stream, packed by gzip or not. Loads, stores and both at once are handed over; fetches of instructions are counted only:
//! there is one for each instruction, of code that the program never allocated. Whose an access is, is not told: a child that
//! forks writes into the same file.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read as _};

use flate2::bufread::MultiGzDecoder;
use nilometer_trace::pages::Accesses;

use crate::error::{Error, Fault, quoted};

/// Command lines are the longest.
const LONGEST: usize = 1 << 20;
/// Lackey knows none above 512 bytes.
const LARGEST_BYTES: u64 = 64 << 10;
/// So many lines of a file's beginning are looked at.
const LOOKED_AT: usize = 500;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const BUFFER_BYTES: usize = 64 << 10;
const HINT: &str = "keep it apart from the program's own output:  valgrind --tool=lackey --trace-mem=yes --log-file=FILE COMMAND";

/// A load, a store, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub start: u64,
    /// At least 1; all of it has an address.
    pub bytes: u64,
}

/// What a trace says besides its accesses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    pub pid: i32,
    pub command: String,
    /// `crossing` is not known here.
    pub accesses: Accesses,
    pub notes: Vec<String>,
}

/// Whether a file that begins so is one, and by what that is told.
pub fn recognises(head: &[u8]) -> Option<String> {
    let mut start = Vec::new();
    if head.starts_with(&GZIP) {
        // The head is cut, so the end is an error; what was unpacked until then is enough.
        let _ = MultiGzDecoder::new(head).take(BUFFER_BYTES as u64).read_to_end(&mut start);
    } else {
        start.extend_from_slice(head);
    }
    let whole = start.iter().rposition(|byte| *byte == b'\n')?;
    for (line, number) in start[..whole].split(|byte| *byte == b'\n').zip(1..).take(LOOKED_AT) {
        match parse(line).ok()? {
            Entry::Access(..) => return Some(format!("line {number} is an access")),
            Entry::Message(message) if message.starts_with(b"Lackey, an example Valgrind tool") => {
                return Some(format!("line {number} names the tool"));
            }
            Entry::Message(_) | Entry::Other => {}
        }
    }
    None
}

/// Hands over every load and store in its order.
pub fn read(input: &mut dyn BufRead, take: &mut dyn FnMut(Access)) -> Result<Told, Error> {
    let head = input.fill_buf().map_err(|source| Error::Read { line: 1, source })?;
    if head.starts_with(&GZIP) {
        Reader::new(&mut BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(input))).read(take)
    } else {
        Reader::new(input).read(take)
    }
}

struct Reader<'a> {
    input: &'a mut dyn BufRead,
    line: Vec<u8>,
    number: u64,
    told: Told,
    pids: BTreeSet<i32>,
    /// Valgrind's messages begin, and end with the program's exit code.
    has_begun: bool,
    has_ended: bool,
}

impl<'a> Reader<'a> {
    fn new(input: &'a mut dyn BufRead) -> Self {
        let (line, told, pids) = (Vec::new(), Told::default(), BTreeSet::new());
        Self { input, line, number: 0, told, pids, has_begun: false, has_ended: false }
    }

    fn read(mut self, take: &mut dyn FnMut(Access)) -> Result<Told, Error> {
        while self.advance()? {
            match parse(&self.line).map_err(|fault| fault.at(self.number))? {
                Entry::Access(kind, access) => {
                    count(&mut self.told.accesses, kind);
                    if kind != Kind::Instruction {
                        take(access);
                    }
                }
                Entry::Message(_) => self.hear(),
                Entry::Other => {}
            }
        }
        self.finish()
    }

    /// Goes to the next line; false at the end. A last line without its end may lack more than that.
    fn advance(&mut self) -> Result<bool, Error> {
        self.line.clear();
        self.number += 1;
        let read = (&mut *self.input).take(LONGEST as u64).read_until(b'\n', &mut self.line);
        match read {
            Ok(_) if self.line.last() == Some(&b'\n') => {
                self.line.pop();
                Ok(true)
            }
            Ok(length) if length == LONGEST => {
                Err(Fault::new(format!("longer than {LONGEST} bytes"), HINT).at(self.number))
            }
            Ok(0) => Ok(false),
            Ok(_) => Ok(self.cut()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(self.cut()),
            Err(source) => Err(Error::Read { line: self.number, source }),
        }
    }

    fn cut(&mut self) -> bool {
        let note = format!("the trace is cut in line {}, which was left out", self.number);
        self.told.notes.push(note);
        false
    }

    fn hear(&mut self) {
        let Some((pid, message)) = message(&self.line) else { return };
        self.pids.insert(pid);
        self.has_begun |= message.starts_with(b"Lackey,");
        self.has_ended |= message.starts_with(b"Exit code:");
        if let Some(command) = message.strip_prefix(b"Command: ").filter(|_| self.told.command.is_empty()) {
            self.told.command = String::from_utf8_lossy(command).into_owned();
            self.told.pid = pid;
        }
    }

    fn finish(mut self) -> Result<Told, Error> {
        let Accesses { loads, stores, modifies, .. } = self.told.accesses;
        if loads + stores + modifies == 0 {
            let what = "it has no load and no store".to_owned();
            let hint = "trace them:  valgrind --tool=lackey --trace-mem=yes --log-file=FILE COMMAND";
            return Err(Error::Unknown { what, hint });
        }
        if self.has_begun && !self.has_ended && self.told.notes.is_empty() {
            let note = "valgrind did not tell the program's end: the trace was cut, or the program became another \
                        one, which --trace-children=yes follows";
            self.told.notes.push(note.into());
        }
        if self.pids.len() > 1 {
            let note = format!(
                "{} processes wrote this trace, and their accesses cannot be told apart: one file each is \
                 --log-file=FILE.%p",
                self.pids.len()
            );
            self.told.notes.push(note);
        }
        Ok(self.told)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Instruction,
    Load,
    Store,
    Modify,
}

fn count(accesses: &mut Accesses, kind: Kind) {
    *match kind {
        Kind::Instruction => &mut accesses.instructions,
        Kind::Load => &mut accesses.loads,
        Kind::Store => &mut accesses.stores,
        Kind::Modify => &mut accesses.modifies,
    } += 1;
}

enum Entry<'a> {
    Access(Kind, Access),
    /// Without its process.
    Message(&'a [u8]),
    /// A blank line, or a block of code (`--trace-superblocks=yes`).
    Other,
}

/// The prefixes are lackey's (`lackey/lk_main.c`): three characters, the address, the size.
fn parse(line: &[u8]) -> Result<Entry<'_>, Fault> {
    let access = |kind, rest| Ok(Entry::Access(kind, parse_access(rest).ok_or_else(|| fault(line))?));
    match line {
        [b'I', b' ', b' ', rest @ ..] => access(Kind::Instruction, rest),
        [b' ', b'L', b' ', rest @ ..] => access(Kind::Load, rest),
        [b' ', b'S', b' ', rest @ ..] => access(Kind::Store, rest),
        [b' ', b'M', b' ', rest @ ..] => access(Kind::Modify, rest),
        [b'S', b'B', b' ', ..] => Ok(Entry::Other),
        _ if line.trim_ascii().is_empty() => Ok(Entry::Other),
        _ => message(line).map(|(_, message)| Entry::Message(message)).ok_or_else(|| fault(line)),
    }
}

fn fault(line: &[u8]) -> Fault {
    let shown = quoted(String::from_utf8_lossy(line).trim_end());
    Fault::new(format!("neither an access (` L ADDRESS,SIZE`) nor a message of valgrind: {shown}"), HINT)
}

/// `1ffeff7e60,8`
fn parse_access(text: &[u8]) -> Option<Access> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    let (address, size) = (&text[..comma], text[comma + 1..].trim_ascii_end());
    if address.is_empty() || address.len() > 16 || size.is_empty() || size.len() > 5 {
        return None;
    }
    let start = address.iter().try_fold(0, |sum, byte| Some(sum << 4 | u64::from(hexadecimal(*byte)?)))?;
    let bytes = size
        .iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))?;
    let ends = start.checked_add(bytes.checked_sub(1)?)?;
    (bytes <= LARGEST_BYTES && ends >= start).then_some(Access { start, bytes })
}

fn hexadecimal(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// `==4711== words`, `--4711-- words`, `**4711** words`, with a time before the number where valgrind was asked for it.
fn message(line: &[u8]) -> Option<(i32, &[u8])> {
    if !matches!(line, [b'=', b'=', ..] | [b'-', b'-', ..] | [b'*', b'*', ..]) {
        return None;
    }
    let (sign, rest) = line.split_at(2);
    let end = rest.windows(2).position(|pair| pair == sign)?;
    let head = str::from_utf8(&rest[..end]).ok()?;
    let pid = head.split_whitespace().next_back()?.parse().ok()?;
    Some((pid, rest[end + 2..].trim_ascii()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TRACE: &str = "==4711== Lackey, an example Valgrind tool
==4711== Command: ./train --epochs 3
==4711== 
I  0401ab70,3
 S 1fff000788,8
 L 04000ffc,8
SB 0401ab70
 M ffffffffffffffff,1
--4711-- a warning
==4711== Exit code:       0
";

    fn accesses(bytes: &[u8]) -> Result<(Vec<(u64, u64)>, Told), Error> {
        let mut found = Vec::new();
        let told = read(&mut &*bytes, &mut |access| found.push((access.start, access.bytes)))?;
        Ok((found, told))
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn loads_and_stores_come_in_their_order_and_fetches_are_counted() {
        let (found, told) = accesses(TRACE.as_bytes()).unwrap();
        assert_eq!(found, [(0x1f_ff00_0788, 8), (0x0400_0ffc, 8), (u64::MAX, 1)]);
        let counts = Accesses { loads: 1, stores: 1, modifies: 1, instructions: 1, crossing: 0 };
        assert_eq!((told.accesses, told.pid, told.command.as_str()), (counts, 4711, "./train --epochs 3"));
        assert_eq!(told.notes, Vec::<String>::new());
        assert_eq!(accesses(&packed(TRACE.as_bytes())).unwrap(), (found, told));
    }

    /// `laps.c` of the binary's tests: five laps over 40 pages, and a load in two of them.
    #[test]
    fn a_real_trace_has_what_its_program_did() {
        let (found, told) = accesses(include_bytes!("../fixtures/lackey.log")).unwrap();
        let counts = Accesses { loads: 1, stores: 200, instructions: 823, ..Accesses::default() };
        assert_eq!((told.accesses, told.command.as_str(), told.notes.len()), (counts, "./laps", 0));
        let first = found[0].0;
        assert!((0..200).all(|at| found[at] == (first + at as u64 % 40 * 4096, 1)));
        assert_eq!(found[200], (first + 4095, 2));
    }

    #[test]
    fn a_trace_is_told_from_its_beginning() {
        let by = |text: &str| recognises(text.as_bytes());
        assert_eq!(by(TRACE).as_deref(), Some("line 1 names the tool"));
        assert_eq!(by("\n==1== x\nI  0401ab70,3\n S 1f").as_deref(), Some("line 3 is an access"));
        assert_eq!(recognises(&packed(TRACE.as_bytes())).as_deref(), Some("line 1 names the tool"));
        for other in ["", " L 4000,8", "==1== Memcheck, a memory error detector\n", "hello\n L 4000,8\n"] {
            assert_eq!(by(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_malformed_is_refused_with_its_place() {
        let bad = [
            " L 4000",
            " L ,8",
            " L 4000,",
            " L 4000,0",
            " L 4000,-1",
            " L 40g0,8",
            " L 4000,8 x",
            " L 4000,65537",
            " L 10000000000000000,1",
            " S ffffffffffffffff,2",
            "I  ,3",
            " X 4000,8",
            "L 4000,8",
            "hello",
            "==x== y",
        ];
        for line in bad {
            let error = accesses(format!("{TRACE}{line}\n L 4000,8\n").as_bytes()).unwrap_err();
            assert!(matches!(error, Error::Line { line: 11, .. }), "{line}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("--log-file")), "{error}");
        }
        let long = [TRACE.as_bytes(), &vec![b'='; LONGEST + 1]].concat();
        assert!(matches!(accesses(&long).unwrap_err(), Error::Line { line: 11, .. }));
        for nothing in ["", "I  0401ab70,3\n", "==1== Command: x\n"] {
            assert!(accesses(nothing.as_bytes()).unwrap_err().to_string().contains("no load and no store"));
        }
    }

    #[test]
    fn what_the_end_cuts_is_left_out_and_noted() {
        let whole = &TRACE[..TRACE.find("SB ").unwrap()];
        let (found, told) = accesses(format!("{whole} L 4000,8").as_bytes()).unwrap();
        assert_eq!(
            (found.len(), told.notes),
            (2, vec!["the trace is cut in line 7, which was left out".into()])
        );
        let notes = accesses(whole.as_bytes()).unwrap().1.notes;
        assert!(notes.len() == 1 && notes[0].contains("did not tell the program's end"), "{notes:?}");
        let mut random = 1_u64;
        let lines = (0..4000).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!(" L {:x},8\n", random >> 20)
        });
        let packed = packed(lines.collect::<String>().as_bytes());
        let (found, told) = accesses(&packed[..packed.len() / 2]).unwrap();
        assert!((1000..3000).contains(&found.len()), "{}", found.len());
        assert!(told.notes.len() == 1 && told.notes[0].contains("cut in line"), "{:?}", told.notes);
    }

    #[test]
    fn several_processes_in_one_file_are_noted() {
        let notes = accesses(format!("{TRACE}==4712== Exit code: 0\n").as_bytes()).unwrap().1.notes;
        assert!(notes.len() == 1 && notes[0].starts_with("2 processes wrote this trace"), "{notes:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = (recognises(&bytes), accesses(&bytes));
        }

        #[test]
        fn no_lines_panic(text in "([ I][ LSM] [0-9a-f]{0,18},[0-9]{0,7}\n|==[0-9]{1,3}== [a-z]*\n){0,9}.{0,9}") {
            let _ = (recognises(text.as_bytes()), accesses(text.as_bytes()));
        }
    }
}
