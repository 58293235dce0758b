//! Screens as people see them.

use nilometer_analysis::heap::model::{By, Table};

use super::example;
use crate::Style;
use crate::heap::{self, Page};

const PLAIN: Style = Style { width: 100, color: false, unicode: true, whole: false };

fn page(again: &'static str) -> Page<'static> {
    Page { style: &PLAIN, target: "4711", again, rows: "" }
}

#[test]
fn the_first_screen() {
    let screen = heap::render_table(&example::summary(), &example::by_kind(), &page("4711"));
    insta::assert_snapshot!(screen, @r"
    2,703,203 objects, 111.8 MiB + 371.0 MiB payload (stopped 48 ms, 99.5 % of refcounts explained)
     Row      Count   %      Size    Payload  Cumulative   %  Kind
       0    182,936   7   7.0 MiB  371.0 MiB   378.0 MiB  78  numpy.ndarray
       1     47,536   2  23.6 MiB        0 B   401.6 MiB  83  dict of topo.base.cf.SharedWeightCF
       2  1,204,254  45  18.4 MiB        0 B   419.9 MiB  87  numpy.float64
     406 more rows: 1,268,477 objects, 62.9 MiB (--top all)
    next → nilo heap paths 4711 --row 0
    ");
}

#[test]
fn where_nothing_was_selected_the_next_command_lists_what_there_is() {
    let mut table = example::table(By::Kind, &[], example::sum(0, 0, 0), 0);
    let screen = |table: &Table| heap::render_table(&example::summary(), table, &page("4711 --kind nosuch"));
    assert!(screen(&table).ends_with("nothing is left to show\n"), "an empty heap: {}", screen(&table));
    table.selection = vec!["kind nosuch".into()];
    assert!(
        screen(&table).ends_with("nothing is left to show\nnext → nilo heap 4711\n"),
        "{}",
        screen(&table)
    );
}

#[test]
fn what_speaks_against_a_census_comes_before_its_numbers() {
    let mut table = example::by_kind();
    table.rows[0].resident_payload_bytes = Some(1 << 28);
    table.rows[1].also_elsewhere = Some(17);
    table.selection = vec!["kind *array*".into(), "row 0 by kind".into()];
    table.rule =
        Some("an object that several hold is counted for the first; Shared: of these, held elsewhere too");
    let drilled = Page { rows: "0", ..page("4711 --by kind,attribute") };
    insta::assert_snapshot!(heap::render_table(&example::doubtful(), &table, &drilled), @r"
    at least 2,703,203 objects, 111.8 MiB + 371.0 MiB payload (read while it ran, 98.1 % of refcounts
    explained)
     partial  the stop was ended after 500 ms with 12 % not copied
     doubt    98.1 % of refcounts explained, 750 references lead to nothing, 1 of 2,975 pools do not add
              up: the target changed while it was read (--pause on)
     limit    Python 3.15: stacks cannot be read
     payload  350.0 MiB in private memory · 21.0 MiB in mapped files · 256.0 MiB of all is resident
     native   122.1 MiB in 22 storages that only C++ holds
     showing  kind *array*; then row 0 by kind
     Row      Count   %      Size    Payload   Resident  Cumulative   %  Shared  Kind
       0    182,936   7   7.0 MiB  371.0 MiB  256.0 MiB   378.0 MiB  78       -  numpy.ndarray
       1     47,536   2  23.6 MiB        0 B        0 B   401.6 MiB  83      17  dict of topo.base.cf.S…
       2  1,204,254  45  18.4 MiB        0 B        0 B   419.9 MiB  87       -  numpy.float64
     406 more rows: 1,268,477 objects, 62.9 MiB (--top all)
     an object that several hold is counted for the first; Shared: of these, held elsewhere too
    next → nilo heap paths 4711 --by kind,attribute --row 0,0
    ");
}

#[test]
fn a_difference() {
    let again = page("b.heap --since a.heap --by attribute");
    insta::assert_snapshot!(heap::render_diff(&example::leak(), &again), @r"
    +33,164 objects, size +3.5 MiB, payload +25.3 MiB in 2 m 05 s: 83,164 objects are 32.7 MiB now
     Row    Count      Size    Payload     New  Gone   Resized  Attribute
       0  +16,582  +1.8 MiB  +12.7 MiB  16,587     5       0 B  Node.c
       1  +16,582  +1.8 MiB  +12.7 MiB  16,587     5       0 B  Node.ct
       2        0       0 B   -4.0 KiB       5     5  -4.0 KiB  (nobody)
     9 more rows: 0 objects, size 0 B, payload 0 B (--top all)
     391 rows did not change
    next → nilo heap paths b.heap --since a.heap --by attribute --row 0
    ");
    let mut strangers = example::leak();
    strangers.different_processes = true;
    insta::assert_snapshot!(heap::render_diff(&strangers, &again), @r"
    +33,164 objects, size +3.5 MiB, payload +25.3 MiB in 2 m 05 s: 83,164 objects are 32.7 MiB now
     doubt    the two are of different processes: new, gone and resized cannot be told apart
     Row    Count      Size    Payload  Attribute
       0  +16,582  +1.8 MiB  +12.7 MiB  Node.c
       1  +16,582  +1.8 MiB  +12.7 MiB  Node.ct
       2        0       0 B   -4.0 KiB  (nobody)
     9 more rows: 0 objects, size 0 B, payload 0 B (--top all)
     391 rows did not change
    next → nilo heap paths b.heap --since a.heap --by attribute --row 0
    ");
}

#[test]
fn single_objects() {
    let (summary, page) = (&example::summary(), &page("4711"));
    insta::assert_snapshot!(heap::render_paths(summary, &example::paths(), page), @r"
    numpy.ndarray at 0x7f1234567890, 112 B + 800 B payload, float64 (100)
     example  the largest of 149,236 objects selected
     held     2 references found, refcount 2
     frees    1 object (112 B + 800 B payload) if it went
       0  __main__.treebank[17].left.c
       1  tree_lstm.py:33 train() batch[2].left.c (a running function's variable)
     there are more paths (--top N lists N)
    next → nilo heap 4711 --of '__main__.treebank[17].left'
    ");
    insta::assert_snapshot!(heap::render_links(summary, &example::links(), page), @r"
    2 objects (224 B) refer to 1 object (112 B + 800 B payload)
     Row  Count    %   Size  Payload  Cumulative    %  Kind
       0      2  100  224 B      0 B       224 B  100  Node
      Size  Payload  Address  Object
     112 B    800 B   0x1000  Node  .c  __main__.treebank[17].left
     112 B    800 B   0x1000  frame
     7 more links (--top all)
    next → nilo heap paths 4711 0x1000
    ");
    insta::assert_snapshot!(heap::render_of(summary, &example::of(), page), @r"
    train.model: Model at 0x5000, 112 B + 800 B payload, float64 (100)
     own      120 objects (80.0 KiB + 15.2 MiB payload) (classes, functions and modules left out, as
              asizeof does)
     deep     9,000 objects (1.0 MiB + 16.0 MiB payload) reachable in all
     frees    100 objects (70.0 KiB + 14.3 MiB payload) if it went
     arrays   2,197,512 elements in 40 buffers, 15.2 MiB; 44 arrays span 2,200,000 elements, 16.8 MiB,
              if shared ones are counted each time; the extent of 1 array is not known
     Row  Count   %     Size   Payload  Cumulative    %  Kind
       0     44  37  4.8 KiB  15.2 MiB    15.2 MiB  100  numpy.ndarray
     8 more rows: 76 objects, 75.2 KiB (--top all)
    ");
}

#[test]
fn lists_of_objects() {
    let (summary, page) = (&example::summary(), &page("4711"));
    insta::assert_snapshot!(heap::render_arrays(summary, &example::arrays(), page), @r"
    2,197,512 elements in 40 buffers, 15.2 MiB; 44 arrays span 2,200,000 elements, 16.8 MiB, if shared
    ones are counted each time; the extent of 1 array is not known
     native   122.1 MiB in 22 buffers that only C++ holds
      Buffer   Span       Elements  Resident  Shared  Address  Array
     1.6 KiB  800 B  float64 (100)   1.6 KiB       2   0x6000  train.model.layers[3].weight  torch.nn.p…
     43 more arrays (--top all)
    next → nilo heap paths 4711 0x6000
    ");
    insta::assert_snapshot!(heap::render_retained(summary, &example::retained(), page), @r"
    3 objects (400 B) keep 501 objects (4.9 KiB + 8.0 KiB payload) alive
     Objects     Size  Payload  Address  Object
         500  4.0 KiB  8.0 KiB   0x7000  list  train.cache
     2 more objects (--top all)
    next → nilo heap paths 4711 0x7000
    ");
    insta::assert_snapshot!(heap::render_cycles(summary, &example::cycles(), page), @r"
    5 circles of 20 objects (2.0 KiB)
     garbage  1 circle of 2 objects (96 B) wait for the collector
     Objects   Frees  Address  Circle
           2  1000 B   0x8000  garbage: Node.children[0].parent (2 Node)
     4 more circles (--top all)
    next → nilo heap paths 4711 0x8000
    ");
    insta::assert_snapshot!(heap::render_stacks(summary, &example::stacks(), page), @r"
    thread 4711 (MainThread), holds the GIL
        step (train.py:33)
        main (train.py:80)
        <module> (train.py)

    thread ?
     … cut: a frame is not readable
    ");
}
