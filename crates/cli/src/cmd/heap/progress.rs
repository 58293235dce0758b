//! One line that says what takes so long; on a terminal only, and gone when it is done.

use std::io::{IsTerminal as _, Write as _};

use nilometer_capture::census::Stage;

/// For [`nilometer_capture::census::CensusOptions`].
pub fn show(stage: Stage) {
    let what = match stage {
        Stage::Locate => "looking for Python …",
        Stage::Prescan => "looking for large buffers …",
        Stage::Copy => "copying …",
        Stage::Decode => "reading objects …",
        Stage::Native => "looking for tensors …",
        Stage::Done => "",
    };
    line(what);
}

/// Replaces the line by another one, or by nothing.
pub fn line(what: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{what}");
        let _ = out.flush();
    }
}
