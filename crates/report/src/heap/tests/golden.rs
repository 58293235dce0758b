//! The published tables of Topographica (Heapy) and of the leaking `TreeLSTM` (muppy), and what the tools themselves
//! print for the same numbers today (guppy3 3.1.7, guppy 0.1.10, Pympler 1.1).

use nilometer_analysis::heap::model::By;

use super::example::{changes, sum, table};
use crate::heap::{heapy, muppy};

#[test]
fn heapy_prints_the_topographica_heap() {
    let rows = [
        ("dict of 0x9226e94", 47_536, 24_718_720, 0),
        ("numpy.float64", 1_204_254, 19_268_064, 0),
        ("topo.base.sheetcoords.Slice", 265_472, 15_928_320, 0),
        ("dict of 0x921e3dc", 85_200, 11_587_200, 0),
        ("topo.base.boundingregion.AARectangle", 267_183, 9_618_588, 0),
        ("numpy.ndarray", 182_936, 7_317_440, 0),
        ("str", 101_539, 6_921_776, 0),
        ("topo.base.boundingregion.BoundingBox", 267_183, 6_412_392, 0),
        ("0x921e3dc", 85_200, 3_408_000, 0),
        ("list", 63_929, 2_842_656, 0),
    ];
    let table = table(By::Kind, &rows, sum(2_703_203, 117_259_620, 0), 409);
    // The published copy has one space less in row 1; both versions of the program print two.
    let expected = "\
Partition of a set of 2703203 objects. Total size = 117259620 bytes.
 Index  Count   %     Size   % Cumulative  % Kind (class / dict of class)
     0  47536   2 24718720  21  24718720  21 dict of 0x9226e94
     1 1204254  45 19268064  16  43986784  38 numpy.float64
     2 265472  10 15928320  14  59915104  51 topo.base.sheetcoords.Slice
     3  85200   3 11587200  10  71502304  61 dict of 0x921e3dc
     4 267183  10  9618588   8  81120892  69 topo.base.boundingregion.AARectangle
     5 182936   7  7317440   6  88438332  75 numpy.ndarray
     6 101539   4  6921776   6  95360108  81 str
     7 267183  10  6412392   5 101772500  87 topo.base.boundingregion.BoundingBox
     8  85200   3  3408000   3 105180500  90 0x921e3dc
     9  63929   2  2842656   2 108023156  92 list
<399 more rows. Type e.g. '_.more' to view.>
";
    assert_eq!(heapy::table(&table), expected);
}

#[test]
fn heapy_prints_the_topographica_referents() {
    let rows = [
        ("topo.base.sheetcoords.Slice", 47_536, 2_852_160, 0),
        ("str", 47_543, 2_151_956, 0),
        ("list", 47_536, 1_521_152, 0),
        ("numpy.float64", 49_808, 796_928, 0),
        ("0x922ad8c", 80, 2_240, 0),
        ("0x9255fc4", 24, 672, 0),
        ("0x9469fd4", 1, 28, 0),
        ("bool", 1, 12, 0),
    ];
    let table = table(By::Kind, &rows, sum(192_529, 7_325_148, 0), 8);
    let expected = "\
Partition of a set of 192529 objects. Total size = 7325148 bytes.
 Index  Count   %     Size   % Cumulative  % Kind (class / dict of class)
     0  47536  25  2852160  39   2852160  39 topo.base.sheetcoords.Slice
     1  47543  25  2151956  29   5004116  68 str
     2  47536  25  1521152  21   6525268  89 list
     3  49808  26   796928  11   7322196 100 numpy.float64
     4     80   0     2240   0   7324436 100 0x922ad8c
     5     24   0      672   0   7325108 100 0x9255fc4
     6      1   0       28   0   7325136 100 0x9469fd4
     7      1   0       12   0   7325148 100 bool
";
    assert_eq!(heapy::table(&table), expected);
}

#[test]
fn heapy_folds_long_names_and_counts_payload_once() {
    let long = "a kind with many many many words that goes on and on beyond the hundredth column of the line, certainly so";
    let table = table(By::Kind, &[(long, 1, 100, 300)], sum(1, 100, 300), 1);
    let expected = "\
Partition of a set of 1 object. Total size = 400 bytes.
 Index  Count   %     Size   % Cumulative  % Kind (class / dict of class)
     0      1 100      400 100       400 100 a kind with many many many words that goes on and on
                                             beyond the hundredth column of the line, certainly so
";
    assert_eq!(heapy::table(&table), expected);
    let nothing = super::example::table(By::Size, &[], sum(0, 0, 0), 0);
    assert_eq!(heapy::table(&nothing), "Partition of a set of 0 objects. Total size = 0 bytes.\n");
}

/// Output of guppy3 for this growth, its last row (of zeros) left out.
#[test]
fn heapy_prints_a_difference() {
    let mut diff = changes(&[
        ("__main__.Node", 2_000, 112_000, 0),
        ("list", 2_000, 159_840, 0),
        ("dict of __main__.Node", 2_000, 176_000, 0),
        ("int", 2, 64, 0),
        ("weakref.ReferenceType", 1, 80, 0),
        ("dict (no owner)", 1, 352, 0),
    ]);
    let total = &mut diff.total;
    (total.count_before, total.count_after) = (49_210, 55_214);
    (total.total_before, total.total_after) = (6_063_800, 6_512_136);
    let expected = "\
Summary of difference operation (A-B).
        Count     Size
  A     55214  6512136
  B     49210  6063800
  A-B    6004   448336  =      7.39 % of B

Differences by kind, largest absolute size diffs first.
 Index  Count     Size  Cumulative  % of B Kind (class / dict of class)
     0   2000   176000    176000       2.9 dict of __main__.Node
     1   2000   159840    335840      5.54 list
     2   2000   112000    447840      7.39 __main__.Node
     3      1      352    448192      7.39 dict (no owner)
     4      1       80    448272      7.39 weakref.ReferenceType
     5      2       64    448336      7.39 int
";
    assert_eq!(heapy::diff(&diff, None), expected);
    assert!(
        heapy::diff(&diff, Some(4)).ends_with("(no owner)\n<2 more rows. Type e.g. '_.more' to view.>\n")
    );
}

#[test]
fn muppy_prints_the_tree_lstm_before() {
    let first = changes(&[
        ("cell", 2, 112, 0),
        ("numpy.ndarray", 53_157, 4_257_300, 0),
        ("list", 8_532, 889_880, 0),
        ("str", 8_436, 510_820, 0),
        ("collections.defaultdict", 1, 196_888, 0),
        ("int", 783, 18_792, 0),
        ("dict", 10, 4_336, 0),
        ("numpy.float64", 101, 2_424, 0),
        ("wrapper_descriptor", 21, 1_680, 0),
        ("weakref", 11, 968, 0),
        ("method_descriptor", 12, 864, 0),
        ("member_descriptor", 3, 216, 0),
        ("getset_descriptor", 2, 144, 0),
        ("code", 1, 128, 0),
        ("function (store_info)", 1, 120, 0),
        ("a sixteenth", 1, 100, 0),
    ]);
    let expected = "                    types |   # objects |   total size
========================= | =========== | ============
            numpy.ndarray |       53157 |      4.06 MB
                     list |        8532 |    869.02 KB
                      str |        8436 |    498.85 KB
  collections.defaultdict |           1 |    192.27 KB
                      int |         783 |     18.35 KB
                     dict |          10 |      4.23 KB
            numpy.float64 |         101 |      2.37 KB
       wrapper_descriptor |          21 |      1.64 KB
                  weakref |          11 |    968     B
        method_descriptor |          12 |    864     B
        member_descriptor |           3 |    216     B
        getset_descriptor |           2 |    144     B
                     code |           1 |    128     B
    function (store_info) |           1 |    120     B
                     cell |           2 |    112     B
";
    assert_eq!(muppy::diff(&first, Some(muppy::ROWS)), expected);
}

#[test]
fn muppy_prints_the_tree_lstm_of_the_second_interval_before_and_after() {
    let before = changes(&[
        ("numpy.ndarray", 149_236, 3_938_880, 8_000_000),
        ("list", 301, 31_296, 0),
        ("numpy.float64", 303, 7_272, 0),
        ("str", 2, 97, 0),
        ("int", 1, 24, 0),
        ("collections.defaultdict", 0, -147_456, 0),
    ]);
    let expected = "                    types |   # objects |      total size
========================= | =========== | ===============
            numpy.ndarray |      149236 |        11.39 MB
                     list |         301 |        30.56 KB
            numpy.float64 |         303 |         7.10 KB
                      str |           2 |        97     B
                      int |           1 |        24     B
  collections.defaultdict |           0 |   -147456     B
";
    assert_eq!(muppy::diff(&before, Some(muppy::ROWS)), expected);
    let after = changes(&[
        ("numpy.ndarray", 516, 41_280, 0),
        ("str", 2, 97, 0),
        ("list", 1, 96, 0),
        ("numpy.float64", 3, 72, 0),
        ("int", 1, 24, 0),
        ("collections.defaultdict", 0, -147_456, 0),
    ]);
    assert!(
        muppy::diff(&after, None).contains("            numpy.ndarray |         516 |        40.31 KB\n")
    );
}

#[test]
fn muppy_prints_nothing_but_its_head_for_nothing() {
    let expected = "  types |   # objects |   total size\n======= | =========== | ============\n";
    assert_eq!(muppy::diff(&changes(&[]), None), expected);
}

#[test]
fn muppy_prints_a_summary() {
    let rows = [("str", 19_518, 2_757_754, 0), ("code", 5_177, 1_929_380, 0), ("cell", 2, 80, 0)];
    let expected = "  types |   # objects |   total size
======= | =========== | ============
    str |       19518 |      2.63 MB
   code |        5177 |      1.84 MB
   cell |           2 |     80     B
";
    assert_eq!(muppy::table(&table(By::Type, &rows, sum(30_000, 9_000_000, 0), 90)), expected);
}
