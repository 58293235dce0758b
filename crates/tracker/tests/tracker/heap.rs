//! Blocks and mappings: told exactly.

use std::collections::HashMap;

use nilometer_ring::Event;

use super::session::Session;

#[test]
fn every_function_of_the_family_is_told_to_the_byte() {
    let session = Session::new();
    let output = session.run("exact.c", "mode=all", &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut truth = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let address = u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        let bytes: u64 = words.next().unwrap().parse().unwrap();
        truth.insert(name.to_owned(), (address, bytes));
    }
    let heard = session.finish();
    let told = heard.only();
    let live = told.live();
    for (name, (address, bytes)) in &truth {
        if name == "map" {
            continue;
        }
        let block = live.get(address).unwrap_or_else(|| panic!("{name} is not told"));
        assert_eq!(block.bytes, *bytes, "{name}");
        assert_ne!(block.stacks.native, 0, "{name}");
    }
    for gone in [70_002, 70_009, 70_010, 70_011, 70_013] {
        assert_eq!(told.live_of(gone), 0, "{gone} lives");
    }
    let failed = truth["failed_realloc"].0;
    assert!(told.events.iter().any(|(_, _, e)| *e == Event::Unfree { address: failed }));
    assert_eq!((told.undone, told.totals.lost, told.unknown_frees()), (1, 0, 0));
    check_mappings(&told.events.iter().map(|(_, _, event)| *event).collect::<Vec<_>>(), truth["map"].0);
}

fn check_mappings(events: &[Event], map: u64) {
    let mib = 1_u64 << 20;
    assert!(events.iter().any(|e| matches!(e, Event::Map { bytes, kind: 0, .. } if *bytes == mib)));
    assert!(events.iter().any(
        |e| matches!(e, Event::Remap { from_bytes, to, to_bytes, .. } if (*from_bytes, *to, *to_bytes) == (mib, map, 8 * mib))
    ));
    assert!(events.contains(&Event::Discard { address: map, bytes: mib, lazily: false }));
    assert!(events.contains(&Event::Unmap { address: map + 4 * mib, bytes: 4 * mib }));
    assert_eq!(events.iter().filter(|e| matches!(e, Event::Break { .. })).count(), 2);
}
