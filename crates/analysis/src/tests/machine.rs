use nilometer_trace::manifest::Limit;
use nilometer_trace::record::*;

use super::stream::*;

const MEMINFO: [(&str, Unit); 8] = [
    ("meminfo.MemTotal", Unit::Kib),
    ("meminfo.MemFree", Unit::Kib),
    ("meminfo.MemAvailable", Unit::Kib),
    ("meminfo.Cached", Unit::Kib),
    ("meminfo.Shmem", Unit::Kib),
    ("meminfo.SUnreclaim", Unit::Kib),
    ("meminfo.Slab", Unit::Kib),
    ("meminfo.AnonPages", Unit::Kib),
];

/// 1000 MiB of RAM; the rest in MiB.
fn meminfo(cached: u64, shmem: u64, slab: u64, anon: u64, unaccounted: u64) -> Vec<u64> {
    let free = 1000 - cached - slab - anon - unaccounted;
    [1000, free, free + cached - shmem, cached, shmem, slab, slab, anon].map(|mib| mib << 10).to_vec()
}

#[test]
fn pages_on_their_way_back_are_not_called_outliving() {
    let mut stream = Stream::new().columns(&MEMINFO);
    stream.system(-100, Phase::Before, &meminfo(100, 10, 50, 200, 30));
    stream.system(1_100, Phase::After, &meminfo(100, 10, 50, 200, 500));
    stream.system(1_250, Phase::After, &meminfo(100, 10, 50, 200, 500));
    let system = stream.exited(1_000).system;
    assert_eq!(system.outlives_process_bytes, Some(0));
    let unaccounted = system.outlives.last().unwrap();
    assert_eq!((unaccounted.settled, unaccounted.change_bytes), (false, 470 * MIB as i64));
}

#[test]
fn shared_memory_and_driver_pages_that_outlive_the_process_are_counted() {
    let mut stream = Stream::new().columns(&MEMINFO);
    for ms in [-300, -200, -100] {
        stream.system(ms, Phase::Before, &meminfo(100, 10, 50, 200, 30));
    }
    stream.system(100, Phase::During, &meminfo(300, 90, 60, 300, 80));
    stream.system(1_100, Phase::After, &meminfo(300, 90, 52, 210, 80));
    stream.system(3_200, Phase::After, &meminfo(250, 74, 51, 200, 90));
    let system = stream.exited(1_000).system;
    let bytes: Vec<u64> = system.outlives.iter().map(|item| item.bytes / MIB).collect();
    // Shmem +64, slab +1 is noise, no kernel stacks told, unaccounted +50.
    assert_eq!(bytes, [64, 0, 50]);
    assert_eq!(system.outlives_process_bytes, Some(114 * MIB));
    assert_eq!(system.reclaimable.unwrap().change_bytes, 86 * MIB as i64);
    assert_eq!(system.available_min_bytes, Some((1000 - 300 - 60 - 300 - 80 + 300 - 90) * MIB));
}

#[test]
fn what_moved_before_the_start_is_noise() {
    let mut stream = Stream::new().columns(&MEMINFO);
    for (ms, shmem) in [(-300, 10), (-200, 60), (-100, 20)] {
        stream.system(ms, Phase::Before, &meminfo(100, shmem, 50, 200, 30));
    }
    stream.system(1_100, Phase::After, &meminfo(100, 65, 50, 200, 30));
    let system = stream.exited(1_000).system;
    assert_eq!(system.outlives_process_bytes, Some(0));
    assert_eq!(
        (system.outlives[0].change_bytes, system.outlives[0].noise_bytes),
        (45 * MIB as i64, 50 * MIB)
    );
}

#[test]
fn without_a_look_before_nothing_is_claimed() {
    let mut stream = Stream::new().columns(&MEMINFO);
    stream.system(1_100, Phase::After, &meminfo(100, 65, 50, 200, 30));
    assert_eq!(stream.exited(1_000).system.outlives_process_bytes, None);
}

const CGROUPS: [(&str, Unit); 8] = [
    ("cgroup.0.usage", Unit::Bytes),
    ("cgroup.0.limit", Unit::Bytes),
    ("cgroup.0.reclaimable", Unit::Bytes),
    ("cgroup.1.usage", Unit::Bytes),
    ("cgroup.1.limit", Unit::Bytes),
    ("cgroup.1.reclaimable", Unit::Bytes),
    ("meminfo.MemTotal", Unit::Kib),
    ("meminfo.MemAvailable", Unit::Kib),
];

fn groups(own: [u64; 3], above: [u64; 3], available: u64) -> Vec<u64> {
    let bytes = own.into_iter().chain(above).map(|mib| mib.saturating_mul(MIB));
    bytes.chain([16 << 20, available << 10]).collect()
}

const NONE: u64 = u64::MAX;

#[test]
fn the_limit_with_the_least_room_binds_also_when_it_changes() {
    let mut manifest = manifest();
    manifest.limit = Some(Limit { bytes: 800 * MIB, source: "cgroup /user.slice".into() });
    let mut stream = Stream::of(&manifest).columns(&CGROUPS).process(0, None, "main", 0);
    stream.single(0, 300, 300);
    stream.system(0, Phase::During, &groups([300, NONE, 0], [400, 800, 100], 9_000));
    stream.system(100, Phase::During, &groups([300, 500, 0], [400, 800, 100], 9_000));
    stream.system(200, Phase::During, &groups([350, 500, 0], [790, 800, 500], 9_000));
    let run = stream.exited(300);
    let limit = run.limit.unwrap();
    assert_eq!((limit.bytes, limit.source.as_str()), (500 * MIB, "cgroup of the process"));
    assert_eq!((limit.headroom_bytes, limit.least_free_bytes), (200 * MIB as i64, Some(150 * MIB)));
    assert_eq!(run.events[0].text, "limit of the cgroup of the process changed from none to 500 MiB");
}

#[test]
fn the_told_limit_keeps_its_name_and_ram_binds_when_it_is_tighter() {
    let mut manifest = manifest();
    manifest.limit = Some(Limit { bytes: 800 * MIB, source: "cgroup /user.slice".into() });
    let mut stream = Stream::of(&manifest).columns(&CGROUPS);
    stream.system(0, Phase::During, &groups([300, NONE, 0], [400, 800, 100], 9_000));
    assert_eq!(stream.exited(300).limit.unwrap().source, "cgroup /user.slice");

    let mut stream = Stream::of(&manifest).columns(&CGROUPS);
    stream.system(0, Phase::During, &groups([300, NONE, 0], [400, 800, 100], 50));
    let limit = stream.exited(300).limit.unwrap();
    assert_eq!((limit.bytes, limit.source.as_str()), (16 << 30, "machine RAM"));
    assert_eq!(limit.least_free_bytes, Some(50 * MIB));
}

#[test]
fn swap_does_not_count_pages_that_are_also_in_memory() {
    let names = [
        ("meminfo.SwapTotal", Unit::Kib),
        ("meminfo.SwapFree", Unit::Kib),
        ("meminfo.SwapCached", Unit::Kib),
        ("psi.memory.some_avg10", Unit::CentiPercent),
    ];
    let mut stream = Stream::new().columns(&names);
    stream.system(-100, Phase::Before, &[1000, 990, 0, 0]);
    stream.system(100, Phase::During, &[1000, 500, 100, 1_250]);
    stream.system(200, Phase::During, &[1000, 700, 0, 300]);
    let system = stream.exited(300).system;
    assert_eq!(system.swap_used_max_bytes, Some(400 << 10));
    assert_eq!(system.swap_used_before_bytes, Some(10 << 10));
    assert_eq!(system.psi_some_max_percent, Some(12.5));
}

#[test]
fn the_interval_is_that_of_real_ticks() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    for ms in [0, 100, 200, 300, 900] {
        stream.single(ms, 10, 10);
    }
    let run = stream.exited(1_000);
    assert_eq!((run.interval_ms.achieved, run.interval_ms.achieved_mean), (Some(100.0), Some(225.0)));
    assert_eq!((run.ticks, run.interval_ms.missed), (5, Some(0)));
    assert!((run.duration_s - 1.0).abs() < 1e-9);
}

#[test]
fn shared_memory_found_by_name_counts_below_the_noise() {
    let mut stream = Stream::new().columns(&MEMINFO);
    stream.event(
        1_100,
        EventKind::Remains { what: "/dev/shm/torch_1".into(), bytes: 100 << 10, births: Vec::new() },
    );
    let system = stream.exited(1_000).system;
    assert_eq!((system.outlives_process_bytes, system.outlives.len()), (Some(100 << 10), 1));
    assert_eq!(system.remains[0].name, "/dev/shm/torch_1");
}
