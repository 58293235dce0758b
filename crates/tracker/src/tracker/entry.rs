//! How a hook learns where it was called from, and how a call that need not be told gets past it.
//!
//! In sampled mode nearly every block is passed over, so that the price of the mode is the price of finding that out:
//! ten instructions, written by hand, that use no stack and no register that the real function needs. A shortcut
//! only ever says "surely not told" and leaves by a jump; whatever else it meets, a mode other than plain sampling
//! first of all, is left as it was found to the hook, which decides by itself.

/// A function that passes on its arguments and, behind them, where its return address is and its caller's
/// rbp. It jumps instead of calling: the stack is as the caller left it, and no frame of ours is on it.
///
/// The registers named must be those of the two arguments that follow the function's own. A shortcut, if there is one,
/// goes to the label 2 when the hook is needed, and falls through when the real function will do.
macro_rules! entry {
    (
        $(#[$attribute:meta])*
        $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?, $entry:literal, $frame:literal => $inner:path
    ) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            core::arch::naked_asm!(
                concat!("mov ", $entry, ", rsp"),
                concat!("mov ", $frame, ", rbp"),
                "jmp {inner}",
                inner = sym $inner,
            )
        }
    };
    (
        $(#[$attribute:meta])*
        $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?, $entry:literal, $frame:literal => $inner:path,
        $($part:ident $parameters:tt),+
    ) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            core::arch::naked_asm!(
                $($crate::tracker::entry::shortcut!($part $parameters),)+
                "jmp qword ptr [rip + {real} + {function}]",
                "2:",
                concat!("mov ", $entry, ", rsp"),
                concat!("mov ", $frame, ", rbp"),
                "jmp {inner}",
                "# not every shortcut uses {exact} {countdown} {counts} {spread}",
                control = sym $crate::tracker::process::QUIET_CONTROL,
                mode = const core::mem::offset_of!(nilometer_ring::layout::Control, mode),
                sampled = const nilometer_ring::event::Level::Sampled as u16,
                exact = const core::mem::offset_of!(nilometer_ring::layout::Control, exact_bytes),
                countdown = const core::mem::offset_of!($crate::tracker::tls::Tls, countdown),
                counts = sym $crate::tracker::sample::COUNTS,
                spread = const $crate::tracker::sample::SPREAD,
                real = sym $crate::tracker::real::REAL,
                function = const core::mem::offset_of!($crate::tracker::real::Real, $name),
                inner = sym $inner,
            )
        }
    };
}

/// The parts of a shortcut. All may change rax and rcx and nothing else but what they say.
#[cfg(not(test))]
macro_rules! shortcut {
    // Plain sampling: no flag is set, no guard is needed. Leaves the control page in rax.
    (sampled()) => {
        "mov rax, qword ptr [rip + {control}]
        cmp word ptr [rax + {mode}], {sampled}
        jne 2f"
    };
    // The product of calloc's arguments, in rcx.
    (product($count:literal, $bytes:literal)) => {
        concat!("mov rcx, ", $count, "; imul rcx, ", $bytes)
    };
    // A block of this size is not recorded for its size alone. The control page is in rax.
    (small($bytes:literal)) => {
        concat!("cmp ", $bytes, ", qword ptr [rax + {exact}]; jae 2f")
    };
    // The block is not drawn: see `sample::may_be_known`. Null may be taken for one that is.
    (not_drawn($block:literal)) => {
        concat!(
            "imul eax, ",
            $block,
            ", {spread}
            shr eax, 16
            lea rcx, [rip + {counts}]
            cmp byte ptr [rcx + rax], 0
            jne 2f"
        )
    };
    // A block of this size is passed over: see `sample::may_be_drawn`. Else the hook will count it.
    (passed_over($bytes:literal)) => {
        concat!(
            "mov rax, qword ptr [rip + nilo_tls@GOTTPOFF]
            sub qword ptr fs:[rax + {countdown}], ",
            $bytes,
            "
            jg 3f
            add qword ptr fs:[rax + {countdown}], ",
            $bytes,
            "
            jmp 2f
            3:"
        )
    };
}

pub(crate) use entry;
#[cfg(not(test))]
pub(crate) use shortcut;
