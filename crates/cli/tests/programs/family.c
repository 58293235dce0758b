// argv[1] children with argv[2] MiB each and a daemon in a session of its own, all deaf to SIGTERM; says their
// pids. At a line it grows by 300 MiB itself; it ends at the next one or after a minute, and the others with it.
#include <signal.h>
#include "own.h"

static int ready[2], end[2];

static void live(size_t mib) {
    int pid = getpid();
    char byte;
    close(end[1]);
    alarm(60);
    touch(mib);
    if (write(ready[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    _exit(read(end[0], &byte, 1) != 0);
}

static void daemonize(void) {
    int between = fork();
    if (between == 0) {
        setsid();
        if (fork() == 0) live(1);
        _exit(0);
    }
    waitpid(between, 0, 0);
}

int main(int argc, char **argv) {
    int pid, children = argc > 2 ? atoi(argv[1]) : 0;
    if (argc < 3 || pipe(ready) || pipe(end)) return 1;
    alarm(60);
    signal(SIGTERM, SIG_IGN);
    for (int i = 0; i < children; i++)
        if (fork() == 0) live(atol(argv[2]));
    daemonize();
    say("parent", getpid());
    for (int i = 0; i < children + 1; i++) {
        if (read(ready[0], &pid, sizeof pid) != sizeof pid) return 1;
        say("member", pid);
    }
    await();
    touch(300);
    await();
    return 0;
}
