//! What is cut and what is taken back; and the way of kernels that have no asynchronous write protection, on a process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::*;

#[test]
fn what_is_left_out_of_dumps_is_known_by_its_flag() {
    let smaps = "1000-9000 rw-p 0 00:00 0 \nRss: 4 kB\nVmFlags: rd wr mr dd \n\
                 9000-a000 rw-p 0 00:00 0 \nVmFlags: rd wr mr ac \n";
    assert_eq!(parse_left_out(smaps), std::slice::from_ref(&(0x1000..0x9000)));
}

#[test]
fn what_is_taken_back_leaves_what_the_target_left_out() {
    assert_eq!(without(&[0..100, 200..300], &[50..60, 250..400]), [0..50, 60..100, 200..250]);
    assert_eq!(neighbours(vec![50..100, 200..300, 400..460, 900..950], 100), [50..460, 900..950]);
    assert!(holds(&(0..100), &(20..100)) && !holds(&(0..100), &(20..101)));
    assert!(overlap(&(0..100), &(99..200)) && !overlap(&(0..100), &(100..200)));
}

#[test]
fn stacks_reserves_and_small_ones_stay_whole() {
    let splittable = |line: &str| is_splittable(&parse_header(line.as_bytes()).unwrap(), 0x1000);
    assert!(splittable("10000-90000 rw-p 0 00:00 0 ") && splittable("10000-90000 rw-p 0 00:00 0 [heap]"));
    assert!(!splittable("10000-90000 rw-p 0 00:00 0 [stack]"));
    assert!(!splittable("10000-90000 ---p 0 00:00 0 ") && !splittable("10000-11000 rw-p 0 00:00 0 "));
}

const MIB: u64 = 1 << 20;
/// Two blocks of 8 MiB with something in between. Each line lets it leave out the second half of one block of core dumps.
const PROGRAM: &str = "
import mmap, sys
make = lambda: mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
blocks = [make(), make()]
for block in blocks: block.write(b'x' * (8 << 20))
for block in blocks:
    print('ready', flush=True)
    sys.stdin.readline()
    block.madvise(mmap.MADV_DONTDUMP, 4 << 20, 4 << 20)
print('ready', flush=True)
sys.stdin.readline()
";

struct Target(Child, BufReader<std::process::ChildStdout>);

impl Target {
    fn start() -> Self {
        let mut python = Command::new("python3");
        let mut child =
            python.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut target = Self(child, lines);
        target.hear();
        target
    }

    fn hear(&mut self) {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    fn go_on(&mut self) {
        writeln!(self.0.stdin.as_mut().unwrap()).unwrap();
        self.hear();
    }

    fn left_out_bytes(&self) -> u64 {
        read_left_out(self.0.id() as i32).iter().map(|range| range.end - range.start).sum()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What it left out before and while it was split stays left out, and nothing else.
#[test]
fn without_userfaultfds_core_dumps_have_what_they_had() {
    let mut target = Target::start();
    target.go_on();
    let pid = target.0.id() as i32;
    let before = target.left_out_bytes();
    let count = || std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().lines().count();
    let mut splitter = Splitter::new(pid, 64 << 10, Filters::default(), None);
    splitter.split();
    assert!(target.left_out_bytes() >= before + 5 * MIB, "{:?}", splitter.take_notes());
    let split = count();
    assert!(split > 150 && splitter.take_stopped_ns() > 0, "{split} mappings");
    target.go_on();
    splitter.join();
    // The chunk beside what the target left out itself cannot be told from it.
    let more = target.left_out_bytes() - before;
    assert!((4 * MIB..=4 * MIB + (64 << 10)).contains(&more), "{more} bytes more");
    assert!(count() < 120, "{} mappings", count());
}
