//! Lines with their numbers, one at a time and none longer than a log has.

use std::io::{BufRead, Read as _};

use crate::error::{Error, Fault};

/// The longest line of the formats here is below 100 bytes.
const LONGEST: usize = 1_024;
const NO_TEXT: &str = "this is no text log; see docs/import.md for the formats";

pub(crate) struct Lines<'a> {
    input: &'a mut dyn BufRead,
    number: u64,
    buffer: Vec<u8>,
    text: String,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(input: &'a mut dyn BufRead) -> Self {
        Self { input, number: 0, buffer: Vec::new(), text: String::new() }
    }

    /// Goes to the next line that is not blank; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if !self.read_line()? {
                return Ok(false);
            }
            let text = str::from_utf8(&self.buffer).ok().map(str::trim);
            let Some(text) = text else { return Err(self.at(Fault::new("bytes that are no text", NO_TEXT))) };
            if !text.is_empty() {
                text.clone_into(&mut self.text);
                return Ok(true);
            }
        }
    }

    fn read_line(&mut self) -> Result<bool, Error> {
        self.buffer.clear();
        self.number += 1;
        let limited = &mut (&mut *self.input).take(LONGEST as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.buffer);
        let length = read.map_err(|source| Error::Read { line: self.number, source })?;
        if length > LONGEST {
            return Err(self.at(Fault::new(format!("longer than {LONGEST} bytes"), NO_TEXT)));
        }
        Ok(length > 0)
    }

    /// The line, without spaces around it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The fault with the line where it is.
    pub(crate) fn at(&self, fault: Fault) -> Error {
        Error::Line { line: self.number, what: fault.what, hint: fault.hint }
    }
}
