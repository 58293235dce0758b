use proptest::{collection::vec, option, prelude::*};

use super::*;

fn decode(payload: &[u8]) -> Result<Vec<Tick>, Error> {
    let mut decoder = BlockDecoder::new();
    decoder.load(payload)?;
    let (mut ticks, mut tick) = (Vec::new(), Tick::default());
    while decoder.next_into(&mut tick)? {
        ticks.push(tick.clone());
    }
    Ok(ticks)
}

fn encode(ticks: &[Tick]) -> Vec<u8> {
    let mut encoder = BlockEncoder::new();
    for tick in ticks {
        encoder.push(tick.into()).unwrap();
    }
    encoder.payload().to_vec()
}

/// A small deterministic generator: the figures below must not change from run to run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn started(index: u32, dice: &mut Dice) -> ProcessSample {
    let (anon_kib, file_kib) = (1_500_000 + 4 * dice.roll(500_000), 300_000 + 4 * dice.roll(5_000));
    ProcessSample {
        index,
        anon_kib,
        file_kib,
        shmem_kib: 4 * dice.roll(100_000),
        hwm_kib: anon_kib + file_kib + 900_000,
        minor_faults: 700_000 + dice.roll(100_000),
        major_faults: dice.roll(300),
        child_minor_faults: if index == 0 { 30_000 } else { 0 },
        user_ticks: 5_000 + dice.roll(1_000),
        system_ticks: 900 + dice.roll(100),
        child_user_ticks: if index == 0 { 250 } else { 0 },
        threads: 24,
        ..ProcessSample::default()
    }
}

/// Allocates and frees tens of MB between ticks, like a training step; sometimes sets a new mark.
fn work(sample: &mut ProcessSample, churn_pages: u64, dice: &mut Dice) {
    let pages = dice.roll(churn_pages);
    sample.anon_kib =
        if dice.roll(2) == 0 { sample.anon_kib + 4 * pages } else { sample.anon_kib - 4 * pages };
    sample.shmem_kib += 4 * dice.roll(2) * dice.roll(3_000);
    sample.file_kib += 4 * (dice.roll(4) / 3);
    sample.hwm_kib = sample.hwm_kib.max(sample.rss_kib());
    sample.minor_faults += pages + dice.roll(500);
    sample.user_ticks += 5 + dice.roll(80);
    sample.system_ticks += dice.roll(6);
}

/// Bytes per process-sample of whole blocks of ten ticks, with the tree but without the system columns.
fn bytes_per_sample(processes: u32, churn_pages: u64) -> f64 {
    let mut dice = Dice(7);
    let mut samples: Vec<_> = (0..processes).map(|index| started(index, &mut dice)).collect();
    let mut encoder = BlockEncoder::new();
    let mut bytes = 0;
    for tick in 0..100_u64 {
        if churn_pages > 0 {
            for sample in &mut samples {
                work(sample, churn_pages, &mut dice);
            }
        }
        let low_kib = samples.iter().map(ProcessSample::rss_kib).max().unwrap();
        let high_kib = samples.iter().map(ProcessSample::rss_kib).sum();
        let tick = TickRef {
            at_ns: 5_000_000_000_000 + tick * 100_000_000 + dice.roll(60_000),
            tree: Some(Bounds { low_kib, high_kib }),
            processes: &samples,
            ..TickRef::default()
        };
        encoder.push(tick).unwrap();
        if encoder.ticks() == 10 {
            bytes += encoder.len() + crate::frame::HEADER_BYTES;
            encoder.clear();
        }
    }
    bytes as f64 / f64::from(100 * processes)
}

#[test]
fn a_process_sample_takes_at_most_twelve_bytes() {
    for processes in [8, 64] {
        // Up to 32 MB and 8000 faults per 100 ms and process; twice that; nothing.
        let [busy, storm, idle] = [8_000, 16_000, 0].map(|churn| bytes_per_sample(processes, churn));
        println!("{processes} processes: busy {busy:.2}, storm {storm:.2}, idle {idle:.2} bytes per sample");
        assert!(busy <= 12.0 && storm <= 12.5 && idle <= 5.0, "busy {busy}, storm {storm}, idle {idle}");
    }
    println!("1 process, with the bytes of tick and frame: busy {:.2}", bytes_per_sample(1, 8_000));
}

#[test]
fn a_missing_value_costs_one_byte_of_difference() {
    let with = |last| encode(&[Tick { system: vec![5, 0, last], ..Tick::default() }]).len();
    // gap and difference
    assert_eq!(with(u64::MAX) - with(0), 2);
}

/// The example of FORMAT.md, byte by byte.
#[test]
fn the_worked_example_is_true() {
    let first = ProcessSample {
        index: 0,
        anon_kib: 4096,
        file_kib: 2048,
        hwm_kib: 6144,
        minor_faults: 1500,
        threads: 1,
        ..ProcessSample::default()
    };
    let second = ProcessSample { anon_kib: 4104, hwm_kib: 6152, minor_faults: 1502, user_ticks: 1, ..first };
    let tree = |kib| Some(Bounds { low_kib: kib, high_kib: kib });
    let ticks = [
        Tick {
            at_ns: 1000,
            tree: tree(6144),
            system: vec![300, u64::MAX],
            processes: vec![first],
            ..Tick::default()
        },
        Tick { at_ns: 1100, tree: tree(6152), processes: vec![second], ..Tick::default() },
    ];
    let mut frame = Vec::new();
    let payload = encode(&ticks);
    crate::frame::encode(&mut frame, crate::frame::Kind::Ticks, |out| {
        out.extend_from_slice(&payload);
        Ok(())
    })
    .unwrap();
    let expected = bytes_in_format_md();
    assert_eq!(frame, expected, "{frame:02x?}");
    assert_eq!(decode(&expected[crate::frame::HEADER_BYTES..]).unwrap(), ticks);
}

/// The hexadecimal numbers at the start of each line of the example.
fn bytes_in_format_md() -> Vec<u8> {
    let text = include_str!("../../FORMAT.md");
    let example = text.split("```example\n").nth(1).unwrap().split("```").next().unwrap();
    let numbers = example.lines().flat_map(|line| line.split("  ").next().unwrap().split(' '));
    numbers.map(|number| u8::from_str_radix(number, 16).unwrap()).collect()
}

#[test]
fn wrong_input_is_refused_and_changes_nothing() {
    let mut encoder = BlockEncoder::new();
    encoder.push(TickRef { at_ns: 5, ..TickRef::default() }).unwrap();
    let before = encoder.payload().to_vec();
    let twice = [ProcessSample::default(); 2];
    assert_eq!(encoder.push(TickRef { processes: &twice, ..TickRef::default() }), Err(Error::Order));
    let many = vec![0; MAX_COLUMNS + 1];
    assert_eq!(encoder.push(TickRef { system: &many, ..TickRef::default() }), Err(Error::Columns));
    assert_eq!((encoder.payload(), encoder.ticks()), (&before[..], 1));
}

#[test]
fn a_tick_too_long_for_a_block_is_refused_until_the_next_block() {
    let crowd: Vec<_> =
        (0..400_000).map(|index| ProcessSample { index, ..ProcessSample::default() }).collect();
    let full = |encoder: &mut BlockEncoder| {
        let crowded: Vec<_> = crowd.iter().map(|s| ProcessSample { anon_kib: 1 << 40, ..*s }).collect();
        encoder.push(TickRef { processes: &crowded, ..TickRef::default() })
    };
    let mut encoder = BlockEncoder::new();
    encoder.push(TickRef::default()).unwrap();
    let before = encoder.payload().to_vec();
    assert_eq!(full(&mut encoder), Err(Error::Full));
    assert_eq!(encoder.push(TickRef::default()), Err(Error::Full));
    assert_eq!(encoder.payload(), before);
    encoder.clear();
    assert_eq!((encoder.push(TickRef::default()), encoder.seq()), (Ok(()), 2));
}

#[test]
fn buffers_are_reused() {
    let mut dice = Dice(1);
    let samples: Vec<_> = (0..50).map(|index| started(index, &mut dice)).collect();
    let system = vec![77; 60];
    let mut encoder = BlockEncoder::new();
    let mut sizes = Vec::new();
    for _ in 0..4 {
        for at_ns in 0..10 {
            let tick = TickRef { at_ns, system: &system, processes: &samples, ..TickRef::default() };
            encoder.push(tick).unwrap();
        }
        encoder.clear();
        sizes.push(encoder.capacities());
    }
    assert!(sizes.windows(2).all(|pair| pair[0] == pair[1]), "{sizes:?}");
}

#[test]
fn a_process_sampled_at_every_other_tick_stays_cheap() {
    let mut dice = Dice(3);
    let samples: Vec<_> = (0..20).map(|index| started(index, &mut dice)).collect();
    let few = [samples[3]];
    let mut encoder = BlockEncoder::new();
    encoder.push(TickRef { processes: &samples, ..TickRef::default() }).unwrap();
    encoder.push(TickRef { processes: &few, ..TickRef::default() }).unwrap();
    let before = encoder.len();
    encoder.push(TickRef { processes: &samples, ..TickRef::default() }).unwrap();
    // dt, flags, count, and for each process an empty mask
    assert_eq!(encoder.len() - before, 3 + 20);
    let ticks = decode(encoder.payload()).unwrap();
    assert_eq!((&ticks[1].processes[..], &ticks[2].processes), (&few[..], &samples));
}

#[test]
fn lies_about_counts_are_errors() {
    // seq, t0, dt, flags During, then five processes that are not there
    assert_eq!(decode(&[1, 0, 0, 1, 5, 0]), Err(Error::Truncated));
    assert_eq!(decode(&[1, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(Error::Truncated));
    // unknown flags, impossible phase, too many columns, a column that does not exist
    assert_eq!(decode(&[1, 0, 0, 0x81, 0]), Err(Error::Range));
    assert_eq!(decode(&[1, 0, 0, 3, 0]), Err(Error::Range));
    assert_eq!(decode(&[1, 0, 0, 0x29, 0x81, 8, 0, 0]), Err(Error::Columns));
    assert_eq!(decode(&[1, 0, 0, 0x29, 1, 1, 1, 2, 0]), Err(Error::Range));
    // an index and a number of threads beyond u32
    assert_eq!(decode(&[1, 0, 0, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(Error::Range));
    assert_eq!(decode(&[1, 0, 0, 1, 1, 0x80, 2, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(Error::Range));
    // a mask with bits that no field has
    assert_eq!(decode(&[1, 0, 0, 1, 1, 0x80, 0x80, 4]), Err(Error::Range));
    assert_eq!(decode(&vec![0; MAX_BLOCK_BYTES + 1]), Err(Error::Full));
}

#[test]
fn after_an_error_the_block_is_at_its_end() {
    let mut decoder = BlockDecoder::new();
    decoder.load(&[1, 0, 0, 3, 0, 0, 1, 0]).unwrap();
    let mut tick = Tick::default();
    assert!(decoder.next_into(&mut tick).is_err());
    assert_eq!(decoder.next_into(&mut tick), Ok(false));
}

/// Numbers as they occur (small, multiples of four) and as they could (anything).
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => (0_u64..2_000).prop_map(|n| n * 4), 2 => 0_u64..5_000_000, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn process() -> impl Strategy<Value = ProcessSample> {
    (prop_oneof![8 => 0_u32..30, 1 => any::<u32>()], vec(number(), 13), any::<u32>()).prop_map(
        |(index, numbers, threads)| {
            let mut fields = [0; 14];
            fields[..7].copy_from_slice(&numbers[..7]);
            fields[7] = u64::from(threads);
            fields[8..].copy_from_slice(&numbers[7..]);
            sample(index, &fields).unwrap()
        },
    )
}

fn tick() -> impl Strategy<Value = Tick> {
    let phase = prop_oneof![Just(Phase::Before), Just(Phase::During), Just(Phase::After)];
    let tree = (number(), number()).prop_map(|(low_kib, high_kib)| Bounds { low_kib, high_kib });
    (number(), phase, option::of(tree), vec(number(), 0..12), vec(process(), 0..8)).prop_map(
        |(at_ns, phase, tree, system, mut processes)| {
            processes.sort_by_key(|process| process.index);
            processes.dedup_by_key(|process| process.index);
            Tick { at_ns, phase, tree, system, processes }
        },
    )
}

proptest! {
    #[test]
    fn any_ticks_come_back(ticks in vec(tick(), 0..12)) {
        if ticks.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(decode(&encode(&ticks)).unwrap(), ticks);
    }

    /// Each tick several times, its successors marked as the same, in blocks that may end anywhere.
    #[test]
    fn what_is_said_to_be_the_same_has_the_same_bytes(
        ticks in vec((tick(), 1_usize..5), 1..6), block in 1_u64..8
    ) {
        let (mut told, mut untold) = (BlockEncoder::new(), BlockEncoder::new());
        for (tick, times) in &ticks {
            for time in 0..*times {
                told.push(TickRef { is_same: time > 0, ..tick.into() }).unwrap();
                untold.push(tick.into()).unwrap();
                prop_assert_eq!(told.payload(), untold.payload());
                if told.ticks() == block {
                    told.clear();
                    untold.clear();
                }
            }
        }
    }

    #[test]
    fn any_bytes_decode_to_ticks_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn any_change_of_a_block_decodes_to_ticks_or_an_error(
        ticks in vec(tick(), 1..6), at in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let mut bytes = encode(&ticks);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode(&bytes);
    }
}
