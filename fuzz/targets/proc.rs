//! Files of /proc and control groups as no kernel writes them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_kernel::parse::fields::FieldTable;
use nilometer_kernel::parse::smaps::Scanner;
use nilometer_kernel::parse::{
    cgroup, drm, environ, kmsg, last_pid, maps, mountinfo, pressure, running, scan, smaps, stat, statm,
    status,
};

fuzz_target!(|bytes: &[u8]| {
    let _ = (status::parse(bytes), stat::parse(bytes), statm::parse(bytes), smaps::parse_rollup(bytes));
    let _ = (cgroup::parse(bytes), drm::parse(bytes), kmsg::parse_oom_kills(bytes), mountinfo::parse(bytes));
    let _ =
        (pressure::parse(bytes), last_pid::parse(bytes), running::parse(bytes), environ::arguments(bytes));
    let _ = (nilometer_image::parse_mappings(bytes), environ::variable(bytes, "PATH"));
    FieldTable::all().parse(bytes);
    for line in scan::lines(bytes) {
        let _ = maps::parse_header(line).map(|mapping| mapping.bytes());
    }
    // However it is cut, the same mappings come out.
    let (whole, cut) = (read_smaps(bytes, bytes.len().max(1)), read_smaps(bytes, 7));
    assert_eq!(whole, cut);
});

fn read_smaps(bytes: &[u8], piece: usize) -> Vec<(u64, u64)> {
    let (mut parser, mut found) = (Scanner::new(), Vec::new());
    let mut visit =
        |mapping: &maps::Mapping<'_>, usage: &smaps::Usage| found.push((mapping.bytes(), usage.rss));
    bytes.chunks(piece).for_each(|chunk| parser.feed(chunk, &mut visit));
    parser.finish(&mut visit);
    found
}
