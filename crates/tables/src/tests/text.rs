//! CSV and JSON lines.

use std::{fs, io, path::Path};

use nilometer_trace::{
    manifest::LOG_FILE,
    reader::Why,
    record::{EventKind, MarkKind, Tick},
};
use serde_json::{Value, json};

use super::made::{HOSTILE, Made, at, columns, event, mark, system_tick};
use crate::{Ending, Error, write_csv, write_json};

fn csv(run: &Path) -> (String, Ending) {
    let mut out = Vec::new();
    let ending = write_csv(run, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), ending)
}

fn json_lines(run: &Path) -> (Vec<Value>, Ending) {
    let mut out = Vec::new();
    let ending = write_json(run, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), ending)
}

#[test]
fn csv_has_the_columns_of_the_seed_and_ours() {
    let made = Made::whole().finish();
    let (text, ending) = csv(&made.run());
    assert_eq!(ending, Ending::Clean);
    assert_eq!(
        text,
        "seconds,MemTotal,MemFree,Buffers,Cached,SwapTotal,SwapFree,SwapCached,program_usage,\
         used_less_buffers_cache,swap,phase,step,tree_low_kb,tree_high_kb,vmstat.pswpin\n\
         0,1000,600,100,200,50,40,4,2,100,6,before,,,,7\n\
         0.1,1000,500,100,200,50,30,5,,200,15,during,,30,36,8\n\
         0.9,1000,550,100,200,50,30,5,4,150,15,after,,,,9\n"
    );
}

#[test]
fn csv_steps_are_those_of_the_tick_and_of_the_first_process() {
    let mut made = Made::new();
    made.append(&columns(&["meminfo.MemFree"]));
    made.append(&mark(at(50), MarkKind::Step(1)));
    made.append(&mark(at(250), MarkKind::Step(2)));
    for ms in [0, 100, 200, 300, 400] {
        made.tick(&system_tick(at(ms), &[ms]));
    }
    // Told late.
    made.append(&event(at(450), EventKind::Started));
    made.append(&mark(at(350), MarkKind::Step(3)));
    let mut foreign = mark(at(260), MarkKind::Step(900));
    if let nilometer_trace::Record::Mark(it) = &mut foreign {
        it.pid = Some(12);
    }
    made.append(&foreign);
    let (text, _) = csv(&made.finish().run());
    let steps: Vec<_> = text.lines().skip(1).map(|line| line.split(',').nth(6).unwrap()).collect();
    assert_eq!(steps, ["", "1", "1", "2", "3"]);
}

#[test]
fn csv_of_a_layout_that_changed_has_all_columns_and_empty_cells() {
    let mut made = Made::new();
    made.append(&columns(&["meminfo.MemTotal", "meminfo.Cached", "cgroup.0.usage"]));
    made.tick(&system_tick(at(0), &[10, 3, 4096]));
    made.append(&columns(&["meminfo.MemTotal", "meminfo.MemFree", "meminfo.Cached"]));
    made.tick(&system_tick(at(500), &[10, 5, 2]));
    let (text, _) = csv(&made.finish().run());
    assert_eq!(
        text,
        "seconds,MemTotal,MemFree,Cached,program_usage,used_less_buffers_cache,swap,phase,step,\
         tree_low_kb,tree_high_kb,cgroup.0.usage\n\
         0,10,,3,,,,during,,,,4096\n\
         0.5,10,5,2,,,,during,,,,\n"
    );
}

#[test]
fn csv_quotes_hostile_names() {
    let mut made = Made::new();
    made.append(&columns(&["meminfo.Active(anon)", &format!("device.{HOSTILE}")]));
    made.tick(&system_tick(at(0), &[1, 2]));
    let (text, _) = csv(&made.finish().run());
    assert!(text.starts_with("seconds,Active(anon),program_usage,"));
    assert!(
        text.contains(",tree_high_kb,\"device.a \"\"b\"\",\nc\r\u{1b}é\"\n0,1,,,,during,,,,2\n"),
        "{text:?}"
    );
}

#[test]
fn json_has_one_object_for_every_record() {
    let made = Made::whole().finish();
    let (lines, ending) = json_lines(&made.run());
    assert_eq!(ending, Ending::Clean);
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    let expected = "header columns tick event process tick mark mark tick mark process_update shares kinds \
                    process_end event event tick end";
    assert_eq!(kinds.join(" "), expected);
    assert_eq!(lines[0]["seconds"], json!(-0.1));
    assert_eq!(
        lines[7],
        json!({"kind": "mark", "seconds": 0.13, "at_ns": at(230), "error_ns": 0, "pid": 11, "note": HOSTILE})
    );
    assert_eq!(lines[14]["event"], "gap");
    assert_eq!(lines[14]["until_ns"], at(900));
    assert_eq!(lines[11]["pss_bytes"], 30 * 1024);
    assert_eq!((&lines[11]["pid"], &lines[11]["pss_kib"]), (&json!(11), &Value::Null));
    assert_eq!(lines[12]["kinds"][0]["size_bytes"], 132 * 1024);
    assert_eq!(lines[13]["waited"]["maxrss_bytes"], 41 * 1024);
    assert_eq!(lines[17]["exit"]["code"], 1);
}

#[test]
fn a_json_tick_names_its_values_and_processes() {
    let made = Made::whole().finish();
    let (lines, _) = json_lines(&made.run());
    assert_eq!(
        lines[5],
        json!({
            "kind": "tick", "seconds": 0.1, "at_ns": at(200), "phase": "during", "step": null,
            "tree": {"low_bytes": 30 * 1024, "high_bytes": 36 * 1024},
            "system": {
                "meminfo.MemTotal": 1000, "meminfo.MemFree": 500, "meminfo.Buffers": 100, "meminfo.Cached": 200,
                "meminfo.SwapTotal": 50, "meminfo.SwapFree": 30, "meminfo.SwapCached": 5,
                "vmstat.pswpin": 8, "nilo.rss": null,
            },
            "processes": [{
                "index": 0, "pid": 11, "anon_bytes": 20480, "file_bytes": 8192, "shmem_bytes": 4096,
                "swap_bytes": 2048, "hwm_bytes": 40960, "minor_faults": 11, "major_faults": 1,
                "child_minor_faults": 5, "child_major_faults": 0, "user_s": 1.5, "system_s": 0.25,
                "child_user_s": 0.03, "child_system_s": 0.0, "threads": 2,
            }],
        })
    );
    assert_eq!(
        (&lines[8]["system"], &lines[8]["tree"], &lines[8]["step"]),
        (&Value::Null, &Value::Null, &json!(6))
    );
}

#[test]
fn a_cut_log_exports_what_is_there_and_says_so() {
    let made = Made::whole().cut(5);
    let (text, ending) = csv(&made.run());
    assert_eq!(text.lines().count(), 4);
    let is_torn = |ending| matches!(ending, Ending::Cut { why: Why::Torn { .. }, .. });
    assert!(is_torn(ending), "{ending:?}");
    let (lines, ending) = json_lines(&made.run());
    assert_eq!(lines.last().unwrap()["kind"], "tick");
    assert!(is_torn(ending), "{ending:?}");
}

#[test]
fn an_open_block_is_exported() {
    let made = Made::whole();
    let (text, ending) = csv(&made.run());
    assert_eq!(text.lines().count(), 4);
    assert!(matches!(ending, Ending::Cut { why: Why::NoEnd, .. }));
}

#[test]
fn an_empty_log_gives_a_header_only() {
    let made = Made::new().finish();
    fs::write(made.run().join(LOG_FILE), "").unwrap();
    let (text, ending) = csv(&made.run());
    assert_eq!(
        text,
        "seconds,program_usage,used_less_buffers_cache,swap,phase,step,tree_low_kb,tree_high_kb\n"
    );
    assert!(matches!(ending, Ending::Cut { why: Why::Empty, .. }));
    assert!(json_lines(&made.run()).0.is_empty());
}

#[test]
fn absurd_numbers_do_not_panic() {
    let mut made = Made::new();
    made.append(&columns(&["meminfo.MemTotal", "meminfo.MemFree", "meminfo.Buffers", "meminfo.Cached"]));
    made.tick(&system_tick(at(0), &[1, u64::MAX - 1, 5, 5]));
    made.tick(&Tick { at_ns: u64::MAX, ..Tick::default() });
    made.append(&mark(u64::MAX, MarkKind::Step(u64::MAX)));
    let made = made.finish();
    let (text, _) = csv(&made.run());
    assert!(text.ends_with("0,1,18446744073709551614,5,5,,0,,during,,,\n"), "{text}");
    assert!(json_lines(&made.run()).0.len() > 3);
}

/// Takes nothing.
struct Full;

impl io::Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_of_the_output() {
    let made = Made::whole().finish();
    assert!(matches!(write_csv(&made.run(), &mut Full), Err(Error::Output(_))));
    let error = write_json(&made.run(), &mut Full).unwrap_err();
    assert!(matches!(&error, Error::Output(source) if source.kind() == io::ErrorKind::StorageFull));
}
