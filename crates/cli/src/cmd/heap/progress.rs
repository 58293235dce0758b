//! One line that says what takes so long; on a terminal only, and gone when it is done.

use nilometer_capture::census::Stage;

pub use crate::talk::line;

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
