// Sleeps uninterruptibly: after vfork until its child is done. The child says "ready" in the memory of both, touches
// 150 MiB of it at a line, and ends at the next; then the parent answers. Deaf to SIGTERM; ends after a minute.
#include <signal.h>
#include "own.h"

int main(void) {
    alarm(60);
    signal(SIGTERM, SIG_IGN);
    if (vfork() == 0) {
        say("ready", getppid());
        await();
        touch(150);
        await();
        _exit(0);
    }
    say("answer", 1);
    await();
    return 0;
}
