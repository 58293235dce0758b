//! Views whose data this page does not carry: each says in one line how to get it.

use super::Page;
use super::view::View;

pub(super) fn ranks(page: &Page<'_>) -> View {
    let command = format!("torchrun --no-python nilo run -- {}", page.run.command.join(" "));
    View::absent(
        "ranks",
        "Do all ranks need the same?",
        "this is one process tree; ranks are runs of their own",
        &command,
    )
}
