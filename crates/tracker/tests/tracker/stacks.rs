//! Native stacks: the frames that the program's own unwinder sees.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use nilometer_ring::Event;
use nilometer_ring::book::Frame;
use nilometer_ring::reader::Stack;

use super::session::{Heard, Session, Told, build, describe};

fn addresses(stack: &Stack) -> Vec<u64> {
    let address = |frame: &Frame| match frame {
        Frame::Native { address, .. } => *address,
        Frame::Python { .. } => panic!("a Python frame in a native stack"),
    };
    stack.frames.iter().map(address).collect()
}

/// The native stack of the first allocation of this size.
fn stack_of(heard: &Heard, told: &Told, bytes: u64) -> Stack {
    let found = told.events.iter().find_map(|(_, _, event)| match event {
        Event::Alloc { bytes: found, stacks, .. } if *found == bytes => Some(stacks.native),
        _ => None,
    });
    heard.book(told).stack(found.unwrap_or_else(|| panic!("no block of {bytes} bytes")))
}

fn check_against_backtrace(flags: &[&str]) {
    let session = Session::new();
    let output = session.command(build("stacks.c", flags), "mode=all").output().unwrap();
    check_output(session, &output, flags);
}

fn check_output(session: Session, output: &Output, flags: &[&str]) {
    assert!(output.status.success(), "{}", describe(output));
    let heard = session.finish();
    let told = heard.only();
    let text = str::from_utf8(&output.stdout).unwrap();
    let mut checked = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let bytes: u64 = words.next().unwrap().parse().unwrap();
        let truth: Vec<u64> = words.map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
        let stack = stack_of(&heard, told, bytes);
        let mut found = addresses(&stack);
        assert!(!stack.cut && !stack.dropped);
        found.remove(0);
        assert_eq!(found, truth, "{flags:?}: {bytes}");
        checked += 1;
    }
    assert_eq!(checked, 33);
    assert_eq!(told.totals.guessed, 0);
}

#[test]
fn frames_without_frame_pointers_are_walked() {
    check_against_backtrace(&["-O2", "-fomit-frame-pointer", "-pthread"]);
}

#[test]
fn frames_of_unoptimised_code_are_walked() {
    check_against_backtrace(&["-O0", "-fno-omit-frame-pointer", "-pthread"]);
}

#[test]
fn realigned_frames_are_walked() {
    check_against_backtrace(&["-O2", "-mavx2", "-mstackrealign", "-pthread"]);
    check_against_backtrace(&["-Os", "-pthread"]);
}

/// Where the first frame ends, and the stacks that were seen, with this much more environment.
#[allow(unsafe_code, reason = "the standard library has no other way to ask for this")]
fn run_padded(program: &Path, padding: usize) -> (u64, Session, Output) {
    let session = Session::new();
    let mut command = session.command(program, "mode=all");
    command.env("PADDING", "x".repeat(padding));
    // SAFETY: one system call between fork and exec: without randomness two runs differ only in the padding.
    unsafe {
        command.pre_exec(|| match libc::personality(libc::ADDR_NO_RANDOMIZE as u64) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let output = command.output().unwrap();
    let text = str::from_utf8(&output.stdout).unwrap();
    let end = text.lines().find_map(|line| line.strip_prefix("# first frame ")).unwrap();
    (u64::from_str_radix(end, 16).unwrap(), session, output)
}

/// Where the kernel puts the first frame is chance: a page may begin or end there.
#[test]
fn a_first_frame_at_the_end_of_a_page_is_walked() {
    let flags = ["-O2", "-pthread"];
    let program = build("stacks.c", &flags);
    let (base, ..) = run_padded(&program, 0);
    for wanted in [0, 4080] {
        let padding = (base - wanted) % 4096;
        let (end, session, output) = run_padded(&program, padding as usize);
        assert_eq!(end % 4096, wanted, "the environment does not move the stack");
        check_output(session, &output, &flags);
    }
}

#[test]
fn a_depth_limit_cuts_the_outer_frames_and_says_so() {
    let session = Session::new();
    let program = build("stacks.c", &["-O2", "-pthread"]);
    let output = session.command(program, "mode=all,depth=10").output().unwrap();
    assert!(output.status.success());
    let heard = session.finish();
    let told = heard.only();
    let stack = stack_of(&heard, told, 50_010);
    assert!(stack.cut);
    assert_eq!(stack.frames.len(), 10);
    assert!(!stack_of(&heard, told, 50_001).cut);
    assert!(told.totals.stacks_cut > 0);
}

/// Stacks that are alike but for one frame, in an order that repeats and then does not: what a thread remembers of them
/// must never be taken for another one.
#[test]
fn stacks_that_differ_in_one_frame_are_told_apart() {
    let session = Session::new();
    let output = session.run("paths.c", "mode=all,wait=20000", &["40000", "0", "where"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let starts: Vec<u64> =
        text.lines().nth(1).unwrap().split(' ').map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
    let (left, right) = (starts[0], starts[1]);
    let function = |address: u64| starts.iter().filter(|&&start| start < address).max().copied();
    let heard = session.finish();
    let told = heard.only();
    let stacks = told.events.iter().filter_map(|(_, _, event)| match event {
        Event::Alloc { bytes: 32_000..32_008, stacks, .. } => Some(stacks.native),
        _ => None,
    });
    let mut count = 0;
    for (number, node) in stacks.enumerate() {
        let frames = addresses(&heard.book(told).stack(node));
        // Outermost first: `right`, then one frame for each bit.
        let bits = (0..24).map(|bit| if number >> bit & 1 == 1 { right } else { left });
        let truth: Vec<Option<u64>> = std::iter::once(right).chain(bits).map(Some).collect();
        let found: Vec<Option<u64>> = frames[..25].iter().rev().map(|&address| function(address)).collect();
        assert_eq!(found, truth, "{number}");
        count += 1;
    }
    assert_eq!(count, 40_000);
}

#[test]
fn thread_stacks_of_all_kinds_are_walked() {
    let session = Session::new();
    let program = build("own_stacks.c", &["-O1", "-g", "-fno-omit-frame-pointer", "-pthread"]);
    let output = session.command(program, "mode=all").output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    let heard = session.finish();
    let told = heard.only();
    let text = str::from_utf8(&output.stdout).unwrap();
    // Two stacks of each kind, in the order in which they were made.
    let mut blocks: HashMap<u64, Vec<u32>> = HashMap::new();
    for (_, _, event) in &told.events {
        if let Event::Alloc { bytes, stacks, .. } = event {
            blocks.entry(*bytes).or_default().push(stacks.native);
        }
    }
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let bytes: u64 = words.next().unwrap().parse().unwrap();
        let truth: Vec<u64> = words.map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
        let turn = seen.entry(bytes).or_default();
        let stack = heard.book(told).stack(blocks[&bytes][*turn]);
        *turn += 1;
        let mut found = addresses(&stack);
        found.remove(0);
        assert_eq!(found, truth, "{bytes}");
        assert!(!stack.cut && truth.len() >= 5);
    }
    assert_eq!(seen.len(), 6, "{text}");
    assert_eq!(told.totals.guessed, 0);
    // On the signal's stack the leaf is all that is known.
    let in_handler = heard.book(told).stack(blocks[&50_000][0]);
    assert!(!in_handler.frames.is_empty());
}

fn plugin(which: u32) -> String {
    let define = format!("-DWHICH={which}");
    let path = build("plugin.cc", &["-O1", "-g", "-shared", "-fPIC", "-fno-gnu-unique", &define]);
    path.to_str().unwrap().to_owned()
}

fn loader(heard_of: &str, args: &[&str]) -> (String, Heard) {
    let session = Session::new();
    let output = session.run("loader.c", heard_of, args);
    (String::from_utf8(output.stdout).unwrap(), session.finish())
}

#[test]
fn static_initialisers_are_one_stack_each() {
    let (a, b) = (plugin(1), plugin(2));
    let (_, heard) = loader("mode=all", &[&a, &b, "1"]);
    let told = heard.only();
    let stacks: Vec<u32> = told
        .events
        .iter()
        .filter_map(|(_, _, event)| match event {
            Event::Alloc { bytes: 61_001, stacks, .. } => Some(stacks.native),
            _ => None,
        })
        .collect();
    assert!(stacks.len() > 200, "{}", stacks.len());
    assert!(stacks.iter().all(|&stack| stack == stacks[0]), "the initialiser's paths are one");
    let frames = addresses(&heard.book(told).stack(stacks[0]));
    let module = |address: u64| {
        let modules = heard.modules(told);
        modules.into_iter().find(|(_, start, end, ..)| (*start..*end).contains(&address)).map(|m| m.0)
    };
    assert_eq!(module(frames[0]), Some(a), "its leaf is the library's initialiser");
    assert!(module(frames[1]).unwrap().contains("ld-linux"), "called by the dynamic linker");
    assert!(frames.len() > 4, "and main is below");
}

#[test]
fn libraries_at_the_same_address_are_told_apart() {
    let (a, b) = (plugin(1), plugin(2));
    let (text, heard) = loader("mode=all", &[&a, &b, "6"]);
    let told = heard.only();
    let unloads = told.events.iter().filter(|(_, _, e)| matches!(e, Event::Unload { .. })).count();
    assert!(unloads >= 6, "{unloads}");
    let mut places: HashMap<u64, Vec<(u64, u16)>> = HashMap::new();
    for (n, line) in text.lines().enumerate() {
        let bytes: u64 = line.split(' ').next().unwrap().parse().unwrap();
        let stack = stack_of(&heard, told, bytes);
        let Frame::Native { address, epoch } = stack.frames[0] else { panic!() };
        places.entry(address).or_default().push((n as u64 % 2, epoch));
    }
    let reused = places.values().any(|uses| uses.iter().any(|u| u.0 == 0) && uses.iter().any(|u| u.0 == 1));
    if !reused {
        nilometer_lab::skip("one address for two libraries", "the kernel chose others");
    }
    for uses in places.values() {
        for (one, epoch_one) in uses {
            for (other, epoch_other) in uses {
                assert!(one == other || epoch_one != epoch_other, "{places:?}");
            }
        }
    }
}

#[test]
fn libraries_are_described_with_their_build_ids() {
    let session = Session::new();
    session.run("throw.cc", "mode=all", &[]);
    let heard = session.finish();
    let modules = heard.modules(heard.only());
    let find = |name: &str| modules.iter().find(|m| m.0.contains(name)).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(find("libc.so.6").4, 20);
    assert_eq!(find("libstdc++").4, 20);
    assert_eq!(find("throw-cc").3 % 4096, 0);
}

#[test]
fn the_library_is_small_and_asks_for_little() {
    let session = Session::deaf();
    let read = |flag: &str| {
        let output = Command::new("readelf").args(["-W", flag]).arg(session.file()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let segments = read("-l");
    let tls = segments.lines().find(|line| line.trim_start().starts_with("TLS")).unwrap();
    let size = tls.split_whitespace().nth(5).unwrap().trim_start_matches("0x");
    assert!(u64::from_str_radix(size, 16).unwrap() < 64, "{tls}");
    let needed: Vec<String> =
        read("-d").lines().filter(|line| line.contains("(NEEDED)")).map(str::to_owned).collect();
    assert_eq!(needed.len(), 1, "{needed:?}");
    assert!(needed[0].contains("[libc.so.6]"), "{needed:?}");
    // Names that other libcs do not have must be looked up, not linked: the target would not start there.
    let symbols = read("--dyn-syms");
    let wanted: Vec<&str> = symbols.lines().filter(|line| line.contains(" UND ")).collect();
    for foreign in
        ["__register_atfork", "_dl_find_object", "__libc_stack_end", "gnu_get_libc_version", "__tls_get_addr"]
    {
        assert!(!wanted.iter().any(|line| line.contains(foreign)), "{foreign} is linked");
    }
    let newer = |line: &&&str| {
        let version = line.split("GLIBC_2.").nth(1).and_then(|rest| rest.split([' ', '(', '.']).next());
        version.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor > 14)
    };
    let newer: Vec<_> = wanted.iter().filter(newer).collect();
    assert!(newer.is_empty(), "older systems do not have these: {newer:?}");
}
