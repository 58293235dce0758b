//! Why pages could not be seen, and what to do instead.

use nilometer_capture::pages::Error;

use super::exit;
use crate::cmd::heap::refusal::policy;
use crate::talk::Failure;

pub fn of(pid: i32, error: Error) -> Failure {
    let (code, hint) = match &error {
        Error::Gone { .. } => (exit::OURS, Some("see your Python processes by size:  nilo".to_owned())),
        Error::TooShort { .. } => {
            (exit::NOT_ENOUGH, Some("look at shorter windows:  nilo pages --window 50ms …".to_owned()))
        }
        Error::NotPermitted { .. } => (exit::NOT_AVAILABLE, Some(permission(pid))),
        Error::NotAvailable { .. } => (
            exit::NOT_AVAILABLE,
            Some(
                "take the best way that works here, without --backend, and see what does:  nilo doctor"
                    .to_owned(),
            ),
        ),
        Error::Nothing(_) => (exit::NOT_AVAILABLE, Some("see what works here:  nilo doctor".to_owned())),
        Error::Kernel(_) | Error::Store(_) => (exit::OURS, None),
    };
    Failure { code, error: error.into(), hint }
}

fn permission(pid: i32) -> String {
    let verdict = policy(pid);
    match verdict.command {
        Some(command) if !verdict.works => format!("{}; to allow it:  {command}", verdict.sentence),
        _ => format!("as the process's own user, or:  sudo nilo pages {pid}"),
    }
}
