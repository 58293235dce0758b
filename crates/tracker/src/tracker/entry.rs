//! How a hook learns where it was called from.

/// A function that passes on its arguments and, behind them, where its return address is and its caller's
/// rbp. It jumps instead of calling: the stack is as the caller left it, and no frame of ours is on it.
///
/// The registers named must be those of the two arguments that follow the function's own.
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
}

pub(crate) use entry;
