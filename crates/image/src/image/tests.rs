use std::os::unix::fs::MetadataExt;

use super::*;

fn image(segments: &[(u64, &[u8])]) -> Image {
    let (mut bytes, mut list) = (Vec::new(), Vec::new());
    for (start, content) in segments {
        list.push(Segment::new(*start, start + content.len() as u64, bytes.len()));
        bytes.extend_from_slice(content);
    }
    Image::new(Mapped::from(&bytes[..]), list, Vec::new())
}

#[test]
fn a_slice_is_of_one_segment_and_a_reading_may_cross() {
    let image = image(&[(0x2000, b"efgh"), (0x1ffc, b"abcd"), (0x3000, b"x")]);
    assert_eq!(image.slice(0x1ffd, 3), Some(&b"bcd"[..]));
    assert_eq!(image.slice(0x1ffd, 4), None);
    let mut bytes = [0; 6];
    assert_eq!(image.read(0x1ffd, &mut bytes), Some(()));
    assert_eq!(&bytes, b"bcdefg");
    assert_eq!(image.read(0x1fff, &mut bytes), None, "0x2004 is not there");
    assert_eq!((image.copied_bytes(), image.segments().count()), (9, 3));
    assert_eq!(image.resident(0x1ffc..0x2000), None);
}

#[test]
fn segments_that_lie_are_dropped() {
    let bytes = || Mapped::from(&b"abcd"[..]);
    let beyond = Segment::new(0x1000, 0x1008, 0);
    let overlapping = Segment::new(0x2002, 0x2004, 0);
    let fits = Segment::new(0x2000, 0x2004, 0);
    let image = Image::new(bytes(), vec![overlapping, beyond, fits, Segment::new(5, 5, 0)], Vec::new());
    assert_eq!(image.segments().collect::<Vec<_>>(), [(0x2000, &b"abcd"[..])]);
}

#[test]
fn what_was_not_copied_comes_from_the_file_unless_it_was_withheld() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("lib.so"), b"....0123456789").unwrap();
    let inode = std::fs::metadata(directory.path().join("lib.so")).unwrap().ino();
    let root = std::fs::File::open(directory.path()).ok();
    let place = Arc::new(Place::Live { pid: std::process::id() as i32, root });
    let private = Mapping {
        start: 0x1000,
        end: 0x2000,
        read: true,
        offset: 4,
        inode,
        path: "/lib.so".into(),
        ..Mapping::default()
    };
    let another = Mapping { start: 0x7000, end: 0x8000, inode: inode + 1, ..private.clone() };
    let shared = Mapping { start: 0x4000, end: 0x5000, shared: true, ..private.clone() };
    let segments = vec![Segment::new(0x1002, 0x1004, 0)];
    let image = Image::new(Mapped::from(&b"##"[..]), segments, vec![shared, another, private]);
    let image = image.with_files(&place, vec![0x1006..0x1007, 0x1007..0x1008]);
    let mut bytes = [0; 6];
    assert_eq!(image.read(0x1000, &mut bytes), Some(()));
    assert_eq!(&bytes, b"01##45");
    assert_eq!(image.slice(0x1000, 3), None, "not of one piece");
    assert_eq!((image.slice(0x1006, 1), image.slice(0x1005, 2)), (None, None));
    assert_eq!(image.slice(0x1008, 2), Some(&b"89"[..]));
    assert_eq!(image.slice(0x1008, 3), None, "the file ends");
    assert_eq!(image.slice(0x4000, 1), None, "others may have written to a shared one");
    assert_eq!(image.slice(0x7000, 1), None, "not the file that was mapped");
}
