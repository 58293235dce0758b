//! Parquet files, read back with the reader of the same crates.

use std::{
    fs::{self, File},
    path::Path,
};

use ::parquet::{
    basic::{Compression, Type},
    file::{
        reader::{FileReader, SerializedFileReader},
        statistics::Statistics,
    },
    record::{Field, Row},
};
use nilometer_trace::{
    reader::Why,
    record::{ProcessSample, Tick},
};
use serde_json::{Value, json};

use super::made::{HOSTILE, MS, Made, REALTIME_NS, at, columns, names_in, system_tick};
use crate::{Ending, Error, write_parquet};

const PARTITION: &str = "run=train%201/node=node7/rank=3";

/// Rows as arrays of JSON values, in the order of the columns.
fn rows(directory: &Path, table: &str) -> (Vec<String>, Vec<Vec<Value>>) {
    let file = File::open(directory.join(format!("{table}.parquet"))).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let schema = reader.metadata().file_metadata().schema();
    let names = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let row = |row: Row| row.get_column_iter().map(|(_, field)| cell(field)).collect();
    (names, reader.get_row_iter(None).unwrap().map(|read| row(read.unwrap())).collect())
}

fn cell(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Long(value) => (*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Bool(value) => (*value).into(),
        Field::Str(value) => value.as_str().into(),
        other => panic!("{other:?} is of no type of ours"),
    }
}

/// One table as objects.
fn objects(directory: &Path, table: &str) -> Vec<Value> {
    let (names, rows) = rows(directory, table);
    rows.into_iter().map(|row| names.iter().cloned().zip(row).collect()).collect()
}

fn ts(ms: u64) -> u64 {
    REALTIME_NS + ms * MS
}

#[test]
fn samples_system_and_tree_come_back_exactly() {
    let made = Made::whole().finish();
    let written = write_parquet(&made.run(), None, false).unwrap();
    assert_eq!(written.ending, Ending::Clean);
    assert_eq!(written.directory, made.run().join("tables").join(PARTITION));
    let row = |ms: u64, seconds: f64, step: Value| {
        json!([
            ts(ms),
            seconds,
            step,
            11,
            0,
            20480,
            8192,
            4096,
            2048,
            40960,
            11,
            1,
            5,
            0,
            1.5,
            0.25,
            0.03,
            0.0,
            2
        ])
    };
    let (names, samples) = rows(&written.directory, "samples");
    assert_eq!(names[..5], ["ts_ns", "seconds", "step", "pid", "index"]);
    assert_eq!(json!(samples), json!([row(200, 0.1, Value::Null), row(300, 0.2, 6.into())]));

    let (names, system) = rows(&written.directory, "system");
    assert_eq!((names[4].as_str(), names[12].as_str()), ("meminfo.MemTotal", "nilo.rss"));
    assert_eq!(system.len(), 3);
    assert_eq!(
        json!(system[1]),
        json!([ts(200), 0.1, null, "during", 1000, 500, 100, 200, 50, 30, 5, 8, null])
    );

    let (_, tree) = rows(&written.directory, "tree");
    assert_eq!(json!(tree), json!([[ts(200), 0.1, null, "during", 30 * 1024, 36 * 1024]]));
}

#[test]
fn rare_records_come_back_exactly_with_hostile_names() {
    let made = Made::whole().finish();
    let directory = write_parquet(&made.run(), None, false).unwrap().directory;
    assert_eq!(
        json!(objects(&directory, "processes")),
        json!([{
            "ts_ns": ts(160), "seconds": 0.06, "index": 0, "pid": 11, "parent_pid": 10, "parent_index": null,
            "start_ticks": 99, "comm": HOSTILE, "command": format!("python {HOSTILE}"), "role": "main",
            "role_evidence": "direct child", "updates": 1, "end_ts_ns": ts(940), "end_seconds": 0.84,
            "hwm_bytes": 40960, "exit_code": 1, "exit_signal": null, "maxrss_bytes": 41 * 1024,
            "user_s": 1.5, "system_s": 0.25, "minor_faults": 12, "major_faults": 1,
        }])
    );
    let walk = json!([ts(320), 0.22, 7, 11, 0]);
    let with = |cells: Value| {
        let mut row = walk.as_array().unwrap().clone();
        row.extend(cells.as_array().unwrap().clone());
        json!([row])
    };
    assert_eq!(
        json!(rows(&directory, "shares").1),
        with(json!([32768, 30720, 28672, 24576, 20480, 6144, 4096, 2048, 0.0005]))
    );
    assert_eq!(
        json!(rows(&directory, "kinds").1),
        with(json!(["heap", 1, 132 * 1024, 20480, 20480, 20480, 2048, 0]))
    );
    assert_eq!(json!(rows(&directory, "mappings").1), with(json!(["file", HOSTILE, 8192, 6144])));
    assert_eq!(
        json!(rows(&directory, "marks").1),
        json!([
            [ts(220), 0.12, 0.0, 11, "step", 6, null],
            [ts(230), 0.13, 0.0, 11, "note", null, HOSTILE],
            [ts(310), 0.21, 0.0, 11, "step", 7, null],
        ])
    );
    let gap = format!(r#"{{"stopped":true,"until_ns":{}}}"#, at(900));
    assert_eq!(
        json!(rows(&directory, "events").1),
        json!([
            [ts(150), 0.05, "started", null, "{}"],
            [ts(400), 0.3, "gap", 0.5, gap],
            [ts(950), 0.85, "exited", null, "{}"],
        ])
    );
}

#[test]
fn a_run_is_one_row_with_its_manifest() {
    let made = Made::whole().finish();
    let directory = write_parquet(&made.run(), None, false).unwrap().directory;
    let runs = objects(&directory, "runs");
    assert_eq!(runs.len(), 1);
    let run = &runs[0];
    assert_eq!((&run["ts_ns"], &run["started_seconds"]), (&json!(REALTIME_NS), &json!(0.05)));
    assert_eq!((&run["name"], &run["host"]), (&json!("train"), &json!("node7")));
    assert_eq!((&run["interval_s"], &run["limit_bytes"]), (&json!(0.1), &json!(1 << 29)));
    assert_eq!((&run["complete"], &run["ending"]), (&json!(true), &json!("complete")));
    assert_eq!((&run["duration_s"], &run["exit_code"]), (&Value::Null, &Value::Null));
    let manifest: Value = serde_json::from_str(run["manifest"].as_str().unwrap()).unwrap();
    assert_eq!(manifest["environment"], json!([["SLURM_PROCID", "3"]]));
}

#[test]
fn files_are_zstd_with_statistics_of_the_time_and_say_where_they_belong() {
    let made = Made::whole().finish();
    let directory = write_parquet(&made.run(), None, false).unwrap().directory;
    let file = File::open(directory.join("samples.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let group = reader.metadata().row_group(0);
    let time = group.column(0);
    assert!(matches!(time.compression(), Compression::ZSTD(_)));
    assert_eq!(time.column_type(), Type::INT64);
    let Some(Statistics::Int64(statistics)) = time.statistics() else { panic!("no statistics") };
    let range = (statistics.min_opt().copied(), statistics.max_opt().copied());
    assert_eq!(range, (Some(ts(200) as i64), Some(ts(300) as i64)));
    let keys = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let key = |name| keys.iter().find(|it| it.key == name).unwrap().value.as_deref().unwrap();
    assert_eq!((key("nilo.run"), key("nilo.node"), key("nilo.rank")), ("train 1", "node7", "3"));
}

#[test]
fn units_of_system_columns_are_told() {
    let made = Made::whole().finish();
    let directory = write_parquet(&made.run(), None, false).unwrap().directory;
    let reader = SerializedFileReader::new(File::open(directory.join("system.parquet")).unwrap()).unwrap();
    let keys = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let units = keys.iter().find(|it| it.key == "nilo.units").unwrap().value.as_deref().unwrap();
    let units: Value = serde_json::from_str(units).unwrap();
    let (names, _) = rows(&directory, "system");
    assert!(names[4..].iter().all(|name| units[name].is_string()), "{units}");
    assert_eq!((&units["meminfo.MemTotal"], &units["ts_ns"]), (&json!("kB"), &Value::Null));
}

#[test]
fn a_layout_that_changed_gives_nullable_columns() {
    let mut made = Made::new();
    made.append(&columns(&["meminfo.MemTotal", "cgroup.0.limit"]));
    made.tick(&system_tick(at(0), &[10, u64::MAX]));
    made.append(&columns(&["meminfo.MemTotal", "meminfo.MemFree", "cgroup.0.limit"]));
    made.tick(&system_tick(at(500), &[10, 5, 4096]));
    let made = made.finish();
    let directory = write_parquet(&made.run(), None, false).unwrap().directory;
    let (names, system) = rows(&directory, "system");
    assert_eq!(names[4..], ["meminfo.MemTotal", "meminfo.MemFree", "cgroup.0.limit"]);
    assert_eq!(json!(system[0][4..]), json!([10, null, null]));
    assert_eq!(json!(system[1][4..]), json!([10, 5, 4096]));
}

#[test]
fn a_cut_log_gives_whole_tables_and_says_so() {
    let made = Made::whole().cut(5);
    let written = write_parquet(&made.run(), None, false).unwrap();
    assert!(matches!(written.ending, Ending::Cut { why: Why::Torn { .. }, .. }));
    assert_eq!(rows(&written.directory, "samples").1.len(), 2);
    let run = &objects(&written.directory, "runs")[0];
    assert_eq!(run["complete"], json!(false));
    assert!(run["ending"].as_str().unwrap().contains("torn"));
}

#[test]
fn what_is_there_is_refused_and_replaced_on_demand() {
    let made = Made::whole().finish();
    let base = made.beside("all");
    let first = write_parquet(&made.run(), Some(&base), false).unwrap();
    assert_eq!(first.directory, base.join(PARTITION));
    let error = write_parquet(&made.run(), Some(&base), false).unwrap_err();
    assert!(matches!(&error, Error::Exists { path } if path.ends_with("samples.parquet")), "{error}");
    assert!(error.hint().unwrap().contains("--force"));
    fs::write(first.directory.join("tree.parquet"), "rubbish").unwrap();
    fs::write(first.directory.join("notes.txt"), "mine").unwrap();
    assert_eq!(write_parquet(&made.run(), Some(&base), true).unwrap(), first);
    assert_eq!(rows(&first.directory, "tree").1.len(), 1);
    let names = names_in(&first.directory).join(" ");
    assert_eq!(
        names,
        "events.parquet kinds.parquet mappings.parquet marks.parquet notes.txt processes.parquet runs.parquet \
         samples.parquet shares.parquet system.parquet tree.parquet"
    );
    assert!(!made.run().join("tables").exists());
}

#[test]
fn a_failure_leaves_no_file_behind() {
    let made = Made::whole().finish();
    let base = made.beside("all");
    let directory = base.join(PARTITION);
    // A directory of the name of a table: it cannot be created, after others were.
    fs::create_dir_all(directory.join(".marks.parquet.new")).unwrap();
    assert!(matches!(write_parquet(&made.run(), Some(&base), false), Err(Error::Io { .. })));
    assert_eq!(names_in(&directory), [".marks.parquet.new"]);
}

#[test]
fn many_rows_come_back_in_order() {
    const TICKS: u64 = 30_000;
    let mut made = Made::new();
    let process =
        |index, ms| ProcessSample { index, anon_kib: ms * 4, hwm_kib: ms * 4, ..Default::default() };
    for ms in 0..TICKS {
        made.tick(&Tick {
            at_ns: at(ms),
            processes: vec![process(0, ms), process(7, ms)],
            ..Tick::default()
        });
    }
    let made = made.finish();
    let directory = write_parquet(&made.run(), None, false).unwrap().directory;
    let (_, samples) = rows(&directory, "samples");
    assert_eq!(samples.len() as u64, 2 * TICKS);
    for (number, row) in (0..).zip(&samples) {
        let (ms, index) = (number / 2, if number % 2 == 0 { 0 } else { 7 });
        assert_eq!(json!([row[0], row[3], row[4], row[5]]), json!([ts(ms), null, index, ms * 4096]));
    }
}

#[test]
fn every_column_is_documented() {
    let page = include_str!("../../TABLES.md");
    let made = Made::whole().finish();
    let directory = write_parquet(&made.run(), None, false).unwrap().directory;
    for name in names_in(&directory) {
        let (_, section) = page.split_once(&format!("### `{name}`")).unwrap();
        let section = section.split("\n### ").next().unwrap();
        let (columns, _) = rows(&directory, name.trim_end_matches(".parquet"));
        for column in columns.iter().filter(|column| !column.contains('.')) {
            assert!(section.contains(&format!("`{column}`")), "{name}: {column} is not in TABLES.md");
        }
    }
}
