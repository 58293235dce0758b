use super::*;

fn told(rank: u64, id: &str, unique: bool) -> Rank {
    Rank {
        launcher: "torchrun",
        rank: Some(rank),
        local: Some(rank),
        world: Some(4),
        id: Some(id.into()),
        unique,
        variable: "NO_SUCH_VARIABLE",
        ..Rank::default()
    }
}

struct Ground {
    _root: tempfile::TempDir,
    places: Places,
}

fn ground() -> Ground {
    let root = tempfile::tempdir().unwrap();
    let places =
        Places { chosen: Some(root.path().join("runs")), working_directory: "/".into(), state: None };
    Ground { _root: root, places }
}

fn command() -> Vec<String> {
    ["python".to_owned(), "train.py".to_owned()].to_vec()
}

/// A name that no other test, and no earlier run of this one, has used.
fn fresh(name: &str) -> String {
    format!("{name}-{}-{}", std::process::id(), nilometer_kernel::sys::clock::realtime_ns())
}

fn wish<'a>(told: &'a Rank, command: &'a [String], boot: &str, start_ticks: u64, started_s: u64) -> Wish<'a> {
    let anchor = Anchor { boot: boot.into(), pid: 7, start_ticks, started_ns: started_s * 1_000_000_000 };
    Wish { told, name: "train".into(), command, directory: None, anchor, node: boot.into() }
}

#[test]
fn ranks_of_a_node_share_a_directory_that_names_launcher_and_id() {
    let ground = ground();
    let id = fresh("job");
    let placed: Vec<Placed> = (0..3)
        .map(|rank| place(&told(rank, &id, false), &command(), None, &ground.places).unwrap())
        .collect();
    assert!(placed.windows(2).all(|pair| pair[0].job == pair[1].job && pair[0].run != pair[1].run));
    let name = placed[0].job.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("train.torchrun-job_") && name.contains(".nilo"), "{name}");
    let found: Vec<u64> = job::list(&placed[0].job).iter().map(|it| it.rank).collect();
    assert_eq!(found, [0, 1, 2]);
    let job = Job::read(&placed[0].job).unwrap();
    assert_eq!((job.launcher.as_str(), job.world_size, job.name.as_str()), ("torchrun", Some(4), "train"));
    assert!(placed[0].speaks() && !placed[1].speaks());
}

#[test]
fn a_restart_stays_in_the_job_and_a_rank_twice_gets_the_next_number() {
    let ground = ground();
    let id = fresh("restart");
    let first = place(&told(1, &id, true), &command(), None, &ground.places).unwrap();
    let again = place(&Rank { restart: 1, ..told(1, &id, true) }, &command(), None, &ground.places).unwrap();
    let twice = place(&told(1, &id, true), &command(), None, &ground.places).unwrap();
    assert!(first.job == again.job && again.job == twice.job);
    assert_eq!([first.restart, again.restart, twice.restart], [0, 1, 2]);
    let absurd = Rank { restart: u64::MAX, ..told(1, &id, true) };
    assert_eq!(place(&absurd, &command(), None, &ground.places).unwrap().restart, u64::MAX);
}

#[test]
fn another_node_joins_and_a_name_that_comes_again_is_another_job() {
    let ground = ground();
    let place = ground.places.candidates().next().unwrap().to_owned();
    let command = command();
    let (zero, four) = (told(0, "10.0.0.1:29500", false), told(4, "10.0.0.1:29500", false));
    let a = wish(&zero, &command, "a", 100, 1_000);
    let (first, _) = claim::find_or_make(&a, &ground.places).unwrap();
    let b = wish(&four, &command, "b", 100, 1_040);
    assert_eq!(
        claim::find_or_make(&b, &ground.places).unwrap().0,
        first,
        "its launcher began 40 s later elsewhere"
    );
    let later = wish(&zero, &command, "a", 900, 1_300);
    let (second, _) = claim::find_or_make(&later, &ground.places).unwrap();
    assert_ne!(second, first, "another launcher on the same node");
    assert_eq!(claim::find_or_make(&later, &ground.places).unwrap().0, second);
    let much_later = wish(&four, &command, "b", 9_000, 9_000);
    assert_ne!(claim::find_or_make(&much_later, &ground.places).unwrap().0, second, "hours later");
    assert!(place.join(".nilo-jobs").is_dir());
}

#[test]
fn a_unique_name_is_joined_whenever() {
    let ground = ground();
    let command = command();
    let rank = told(0, "17.0", true);
    let first = claim::find_or_make(&wish(&rank, &command, "a", 100, 1_000), &ground.places).unwrap().0;
    let requeued = claim::find_or_make(&wish(&rank, &command, "c", 5, 90_000), &ground.places).unwrap().0;
    assert_eq!(first, requeued);
}

#[test]
fn nodes_that_come_at_once_agree() {
    let ground = ground();
    let command = command();
    let ranks: Vec<Rank> = (0..16).map(|rank| told(rank, "17.0", true)).collect();
    let found: Vec<PathBuf> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .iter()
            .enumerate()
            .map(|(node, rank)| {
                let (command, places) = (&command, &ground.places);
                let wish = move || wish(rank, command, &format!("n{node}"), 1, 1_000);
                scope.spawn(move || claim::find_or_make(&wish(), places).unwrap().0)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
    let place = ground.places.candidates().next().unwrap();
    let jobs = std::fs::read_dir(place).unwrap().flatten().filter(|entry| job::is_job(&entry.path())).count();
    assert_eq!(jobs, 1, "who lost removed what it had made");
}

#[test]
fn a_launcher_without_numbers_gets_the_next_free_one() {
    let ground = ground();
    let id = fresh("ray");
    let told = Rank { rank: None, local: None, ..told(0, &id, true) };
    let ranks: Vec<u64> =
        (0..3).map(|_| place(&told, &command(), None, &ground.places).unwrap().rank).collect();
    assert_eq!(ranks, [0, 1, 2]);
}

#[test]
fn a_named_directory_is_joined_and_what_is_no_job_is_left_alone() {
    let ground = ground();
    let named = ground.places.candidates().next().unwrap().join("mine");
    let id = fresh("named");
    let first = place(&told(0, &id, false), &command(), Some(&named), &ground.places).unwrap();
    let other = place(&told(1, &fresh("other"), false), &command(), Some(&named), &ground.places).unwrap();
    assert!(first.job == named && other.job == named);
    let thesis = ground.places.candidates().next().unwrap().join("thesis");
    std::fs::create_dir(&thesis).unwrap();
    std::fs::write(thesis.join("a.tex"), "x").unwrap();
    std::fs::write(thesis.join("b.tex"), "x").unwrap();
    let refused = place(&told(0, &fresh("thesis"), false), &command(), Some(&thesis), &ground.places);
    assert!(matches!(refused, Err(Error::Exists { .. })));
}

#[test]
fn a_spooled_run_comes_home_whole() {
    let root = tempfile::tempdir().unwrap();
    let (base, home) = (root.path().join("fast"), root.path().join("home"));
    std::fs::create_dir(&home).unwrap();
    let spool = Spool::open(&base, &home).unwrap();
    assert!(home.join("spooled.json").exists());
    std::fs::create_dir(spool.local.join("heap")).unwrap();
    for file in ["trace.nlog", "manifest.json", "heap/0.heap"] {
        std::fs::write(spool.local.join(file), file).unwrap();
    }
    copy_home(&spool).unwrap();
    for file in ["trace.nlog", "manifest.json", "heap/0.heap"] {
        assert_eq!(std::fs::read_to_string(home.join(file)).unwrap(), file);
    }
    assert!(!spool.local.exists() && !home.join("spooled.json").exists());
}
