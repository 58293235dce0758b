//! A panic gives the terminal back: seen through a pseudo-terminal, in a process of its own.

use std::io::Read as _;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::screen::Screen;

const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";

/// For the test below, which starts it in a terminal of its own.
#[test]
#[ignore = "takes the terminal, and panics"]
fn panics_with_the_terminal_in_hand() {
    let screen = Screen::enter().unwrap();
    assert!(format!("{screen:?}").is_empty(), "on purpose");
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let modes = || format!("{:?}", pair.master.get_termios());
    let before = modes();
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "cmd::top::tests::panics_with_the_terminal_in_hand",
        "--ignored",
        "--nocapture",
    ]);
    command.env("TERM", "xterm");
    let mut child = pair.slave.spawn_command(command).unwrap();
    let mut reader = pair.master.try_clone_reader().unwrap();
    let shown = std::thread::spawn(move || {
        let (mut shown, mut bytes) = (Vec::new(), [0; 4096]);
        // To the summary of the test runner: the terminal stays open on our side.
        while !String::from_utf8_lossy(&shown).contains("test result") {
            let read = reader.read(&mut bytes).unwrap();
            shown.extend_from_slice(&bytes[..read]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    });
    let shown = shown.join().unwrap();
    assert!(!child.wait().unwrap().success(), "it panicked");
    let place = |words: &str| shown.find(words).unwrap_or_else(|| panic!("{words:?} in {shown:?}"));
    assert!(
        place(ENTER_SCREEN) < place(LEAVE_SCREEN) && place(LEAVE_SCREEN) < place("on purpose"),
        "{shown:?}"
    );
    assert_eq!(modes(), before);
}
