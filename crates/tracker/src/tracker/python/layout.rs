//! Where the interpreter keeps its frames and code objects, by version.
//!
//! Taken from the headers of the versions named; `tests/tracker/python.rs` compares what is read through them with
//! what each installed interpreter says about its own stack.

/// Offsets in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// In the thread state: the innermost frame, or the C frame that holds it.
    pub thread_frame: u16,
    /// In the C frame (3.11, 3.12): the innermost frame.
    pub c_frame: Option<u16>,
    pub frame: FrameLayout,
    pub code: CodeLayout,
    pub text: TextLayout,
}

#[derive(Debug, Clone, Copy)]
pub struct FrameLayout {
    pub code: u16,
    /// The bits of that word that are the address.
    pub code_bits: usize,
    pub previous: u16,
    pub position: u16,
    pub kind: FrameKind,
}

/// How a frame tells its position, and whether it is the first of its native evaluation frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A heap object per call; the position is an `int`, to be multiplied by this.
    Object { unit: u32 },
    /// A frame on the interpreter's own stack with a flag (3.11).
    Flagged { entry: u16 },
    /// The same with a frame of the C stack between two evaluations (3.12 and later).
    Shimmed { owner: u16 },
}

impl Layout {
    /// The object that a frame says it executes: from 3.14 on the low bits of the word say who owns it.
    #[inline(always)]
    pub fn executable(&self, word: usize) -> usize {
        word & self.frame.code_bits
    }
}

#[derive(Debug, Clone, Copy)]
pub struct CodeLayout {
    pub file: u16,
    pub name: u16,
    pub first_line: u16,
    pub lines: u16,
    /// Where the instructions begin; 0 where positions are no addresses.
    pub instructions: u16,
    /// What a frame executes is code. From 3.13 on extensions can push frames that execute something else.
    pub is_certain: bool,
}

/// Strings whose characters follow the object: ASCII ones, and others.
#[derive(Debug, Clone, Copy)]
pub struct TextLayout {
    pub ascii: u16,
    pub wide: u16,
}

/// From this owner on, a frame only separates two evaluations.
pub const SHIM: u8 = 3; // FRAME_OWNED_BY_CSTACK up to 3.13, then _BY_INTERPRETER, and in 3.14 _BY_CSTACK after it
const WHOLE: usize = usize::MAX;
/// Two bits are tags (`Py_TAG_BITS`).
const UNTAGGED: usize = !3;

const OLD_CODE: CodeLayout =
    CodeLayout { file: 104, name: 112, first_line: 40, lines: 120, instructions: 0, is_certain: true };
const OLD_TEXT: TextLayout = TextLayout { ascii: 48, wide: 72 };
const NEW_TEXT: TextLayout = TextLayout { ascii: 40, wide: 56 };

const fn object(position: u16, unit: u32) -> Layout {
    Layout {
        thread_frame: 24,
        c_frame: None,
        frame: FrameLayout {
            code: 32,
            code_bits: WHOLE,
            previous: 24,
            position,
            kind: FrameKind::Object { unit },
        },
        code: OLD_CODE,
        text: OLD_TEXT,
    }
}

const fn shimmed(thread_frame: u16, c_frame: Option<u16>, instructions: u16) -> Layout {
    Layout {
        thread_frame,
        c_frame,
        frame: FrameLayout {
            code: 0,
            code_bits: WHOLE,
            previous: 8,
            position: 56,
            kind: FrameKind::Shimmed { owner: 70 },
        },
        code: CodeLayout {
            file: 112,
            name: 128,
            first_line: 68,
            lines: 136,
            instructions,
            is_certain: c_frame.is_some(),
        },
        text: NEW_TEXT,
    }
}

/// 3.14 and 3.15: the words of a frame are tagged.
const fn tagged() -> Layout {
    let mut layout = shimmed(72, None, 208);
    layout.frame.code_bits = UNTAGGED;
    layout.frame.kind = FrameKind::Shimmed { owner: 74 };
    layout
}

/// Index 0 is 3.8.
static LAYOUTS: [Layout; 8] = [
    object(104, 1),
    object(104, 1),
    object(96, 2),
    Layout {
        thread_frame: 56,
        c_frame: Some(8),
        frame: FrameLayout {
            code: 32,
            code_bits: WHOLE,
            previous: 48,
            position: 56,
            kind: FrameKind::Flagged { entry: 68 },
        },
        code: CodeLayout {
            file: 112,
            name: 128,
            first_line: 72,
            lines: 136,
            instructions: 184,
            is_certain: true,
        },
        text: OLD_TEXT,
    },
    shimmed(56, Some(0), 192),
    shimmed(72, None, 200),
    tagged(),
    tagged(),
];

/// The layout of 3.`minor`, if it is known.
pub fn of(minor: u32) -> Option<&'static Layout> {
    LAYOUTS.get(minor.checked_sub(8)? as usize)
}
