//! A pickle of plain data, read without running anything: numbers, texts, lists, tuples, dicts.
//!
//! Values are numbers of an arena, because snapshots share their frames and stacks thousandfold. Whatever names a
//! class, calls something or asks for an object from outside is refused by its opcode. The one invariant: one opcode makes
//! at most one value, so memory is bounded by the file.

use crate::error::Error;

pub(super) type Id = u32;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(&'a str),
    Bytes,
    /// A list, a tuple or a set.
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
}

#[derive(Debug)]
pub(super) struct Pickle<'a> {
    values: Vec<Value<'a>>,
    pub(super) root: Id,
}

impl<'a> Pickle<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut machine = Machine {
            bytes,
            at: 0,
            values: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
        };
        let root = machine.run()?;
        Ok(Self { values: machine.values, root })
    }

    pub(super) fn value(&self, id: Id) -> &Value<'a> {
        self.values.get(id as usize).unwrap_or(&Value::None)
    }

    pub(super) fn get(&self, dict: Id, key: &str) -> Option<Id> {
        let Value::Dict(entries) = self.value(dict) else { return None };
        let found = entries.iter().rev().find(|(name, _)| *self.value(*name) == Value::Text(key));
        found.map(|(_, value)| *value).filter(|value| *self.value(*value) != Value::None)
    }

    pub(super) fn list(&self, id: Option<Id>) -> &[Id] {
        match id.map(|id| self.value(id)) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    pub(super) fn text(&self, id: Option<Id>) -> &'a str {
        match id.map(|id| self.value(id)) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// A number that is not negative; 0 for anything else.
    pub(super) fn number(&self, id: Option<Id>) -> u64 {
        match id.map(|id| self.value(id)) {
            Some(Value::Int(number)) => u64::try_from(*number).unwrap_or(0),
            Some(Value::Bool(is_set)) => (*is_set).into(),
            _ => 0,
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value<'a>>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: Vec<Option<Id>>,
}

const NOT_PLAIN: &str = "a memory snapshot of torch holds plain data only; this file could run code when Python loads it. \
                         Make one with torch.cuda.memory._dump_snapshot(\"FILE.pickle\")";
const DAMAGED: &str =
    "the file is cut or no pickle; write it again with torch.cuda.memory._dump_snapshot(\"FILE.pickle\")";

/// What runs code or asks for something from outside.
fn forbidden(code: u8) -> Option<&'static str> {
    Some(match code {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        0x82..=0x84 => "EXT",
        b'P' | b'Q' => "PERSID",
        0x97 | 0x98 => "NEXT_BUFFER",
        _ => return None,
    })
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Id, Error> {
        loop {
            let start = self.at;
            let code = self.byte().ok_or_else(|| self.damaged(start))?;
            if let Some(name) = forbidden(code) {
                let what = format!("byte {start}: opcode {name} is not plain data");
                return Err(Error::Unknown { what, hint: NOT_PLAIN });
            }
            if code == b'.' {
                return self.stack.pop().ok_or_else(|| self.damaged(start));
            }
            self.step(code).ok_or_else(|| self.damaged(start))?;
        }
    }

    fn damaged(&self, at: usize) -> Error {
        let code = self.bytes.get(at).map_or_else(|| "the end".into(), |code| format!("opcode {code:#04x}"));
        Error::Unknown { what: format!("byte {at}: {code} makes no sense here"), hint: DAMAGED }
    }

    fn step(&mut self, code: u8) -> Option<()> {
        match code {
            0x80 => self.byte().map(drop),
            0x95 => self.take(8).map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                Some(())
            }
            b'0' => self.stack.pop().map(drop),
            b'1' => self.after_mark().map(drop),
            b'2' => {
                let top = *self.stack.last()?;
                self.stack.push(top);
                Some(())
            }
            b'a' | b'e' | 0x90 => self.append(code == b'a'),
            b's' | b'u' => self.set(code == b's'),
            b'h' | b'j' | b'q' | b'r' | 0x94 => self.remember(code),
            _ => {
                let value = self.make(code)?;
                self.push(value)
            }
        }
    }

    fn make(&mut self, code: u8) -> Option<Value<'a>> {
        Some(match code {
            b'N' => Value::None,
            0x88 | 0x89 => Value::Bool(code == 0x88),
            b'J' => Value::Int(i32::from_le_bytes(self.array()?).into()),
            b'K' => Value::Int(self.byte()?.into()),
            b'M' => Value::Int(u16::from_le_bytes(self.array()?).into()),
            0x8a | 0x8b => self.long(code)?,
            b'G' => Value::Float(f64::from_be_bytes(self.array()?)),
            b'U' | 0x8c => self.text_of(1)?,
            b'T' | b'X' => self.text_of(4)?,
            0x8d => self.text_of(8)?,
            b'C' => self.bytes_of(1)?,
            b'B' => self.bytes_of(4)?,
            0x8e | 0x96 => self.bytes_of(8)?,
            b']' | b')' | 0x8f => Value::List(Vec::new()),
            b'}' => Value::Dict(Vec::new()),
            b'l' | b't' | 0x91 => Value::List(self.after_mark()?),
            0x85..=0x87 => Value::List(self.last(usize::from(code - 0x84))?),
            b'd' => Value::Dict(pairs(&self.after_mark()?)?),
            _ => return None,
        })
    }

    fn push(&mut self, value: Value<'a>) -> Option<()> {
        let id = Id::try_from(self.values.len()).ok()?;
        self.values.push(value);
        self.stack.push(id);
        Some(())
    }

    fn append(&mut self, one: bool) -> Option<()> {
        let mut added = if one { self.last(1)? } else { self.after_mark()? };
        let list = *self.stack.last()?;
        match self.values.get_mut(list as usize)? {
            Value::List(items) => {
                items.append(&mut added);
                Some(())
            }
            _ => None,
        }
    }

    fn set(&mut self, one: bool) -> Option<()> {
        let added = if one { self.last(2)? } else { self.after_mark()? };
        let mut added = pairs(&added)?;
        let dict = *self.stack.last()?;
        match self.values.get_mut(dict as usize)? {
            Value::Dict(entries) => {
                entries.append(&mut added);
                Some(())
            }
            _ => None,
        }
    }

    fn remember(&mut self, code: u8) -> Option<()> {
        let place = match code {
            b'h' | b'q' => usize::from(self.byte()?),
            b'j' | b'r' => u32::from_le_bytes(self.array()?) as usize,
            _ => self.memo.len(),
        };
        if matches!(code, b'h' | b'j') {
            let known = (*self.memo.get(place)?)?;
            self.stack.push(known);
            return Some(());
        }
        // Places are given in order; a file that leaves more of them out than it has bytes is none of ours.
        if place >= self.memo.len() {
            (place <= self.bytes.len()).then_some(())?;
            self.memo.resize(place + 1, None);
        }
        *self.memo.get_mut(place)? = Some(*self.stack.last()?);
        Some(())
    }

    fn long(&mut self, code: u8) -> Option<Value<'a>> {
        let length = if code == 0x8a { usize::from(self.byte()?) } else { self.length(4)? };
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut whole = [if negative { 0xff } else { 0 }; 16];
        whole.get_mut(..length)?.copy_from_slice(bytes);
        Some(Value::Int(i128::from_le_bytes(whole)))
    }

    fn text_of(&mut self, width: usize) -> Option<Value<'a>> {
        let length = self.length(width)?;
        str::from_utf8(self.take(length)?).ok().map(Value::Text)
    }

    fn bytes_of(&mut self, width: usize) -> Option<Value<'a>> {
        let length = self.length(width)?;
        self.take(length).map(|_| Value::Bytes)
    }

    fn length(&mut self, width: usize) -> Option<usize> {
        let mut whole = [0; 8];
        whole.get_mut(..width)?.copy_from_slice(self.take(width)?);
        usize::try_from(u64::from_le_bytes(whole)).ok()
    }

    fn last(&mut self, count: usize) -> Option<Vec<Id>> {
        let from = self.stack.len().checked_sub(count)?;
        Some(self.stack.split_off(from))
    }

    fn after_mark(&mut self) -> Option<Vec<Id>> {
        let mark = self.marks.pop()?;
        (mark <= self.stack.len()).then(|| self.stack.split_off(mark))
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}

fn pairs(items: &[Id]) -> Option<Vec<(Id, Id)>> {
    let pairs = items.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| pairs.filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_data_is_read_and_shared_values_stay_shared() {
        // pickle.dumps({'a': x, 'b': x}, 2) with x = [1, -2, 2**40, 0.5, None, True, 'é']
        let bytes = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01G?\xe0\x00\x00\x00\x00\x00\x00N\x88X\x02\x00\x00\x00\xc3\xa9q\x03eX\x01\x00\x00\x00bq\x04h\x02u.";
        let pickle = Pickle::parse(bytes).unwrap();
        let (a, b) = (pickle.get(pickle.root, "a").unwrap(), pickle.get(pickle.root, "b").unwrap());
        assert_eq!(a, b);
        let items: Vec<&Value<'_>> = pickle.list(Some(a)).iter().map(|id| pickle.value(*id)).collect();
        let known = [
            Value::Int(1),
            Value::Int(-2),
            Value::Int(1 << 40),
            Value::Float(0.5),
            Value::None,
            Value::Bool(true),
            Value::Text("é"),
        ];
        assert_eq!(items, known.iter().collect::<Vec<_>>());
    }

    #[test]
    fn what_could_run_code_is_refused_by_name() {
        // pickle.dumps of an object whose __reduce__ is (os.system, ('true',)), protocols 0 and 4.
        let zero = b"cposix\nsystem\np0\n(Vtrue\np1\ntp2\nRp3\n.";
        let four = b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.";
        for (bytes, name) in [(&zero[..], "GLOBAL"), (&four[..], "STACK_GLOBAL")] {
            let error = Pickle::parse(bytes).unwrap_err();
            assert!(error.to_string().contains(&format!("opcode {name} ")), "{error}");
        }
    }

    #[test]
    fn a_cut_pickle_is_no_panic() {
        let whole = b"\x80\x02]q\x00(K\x01K\x02e.";
        for end in 0..whole.len() {
            assert!(Pickle::parse(&whole[..end]).is_err(), "{end}");
        }
        for bytes in [&b"e."[..], b"u.", b"(.", b"h\x07.", b"\x80\x02r\xff\xff\xff\xffK\x01.", b"]]sK\x01."] {
            assert!(Pickle::parse(bytes).is_err());
        }
    }
}
