// A parent with 200 MiB and four forks that each write to 30 MiB of it: 320 MiB in all, 1,000 by RSS.
#include "own.h"

#define FORKS 4

static long pss_kib(int pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    return field_kib(path, "Pss");
}

int main(void) {
    int ready[2], end[2], pids[FORKS];
    char byte;
    if (pipe(ready) || pipe(end)) return 1;
    char *shared = touch(200);
    for (int i = 0; i < FORKS; i++) {
        if ((pids[i] = fork()) == 0) {
            close(end[1]);
            for (size_t at = 0; at < 30 << 20; at += 4096) shared[at] = 2;
            if (write(ready[1], "r", 1) != 1) return 1;
            _exit(read(end[0], &byte, 1) != 0); // until the parent closes the other end
        }
    }
    for (int i = 0; i < FORKS; i++)
        if (read(ready[0], &byte, 1) != 1) return 1;
    long pss = pss_kib(getpid());
    for (int i = 0; i < FORKS; i++) pss += pss_kib(pids[i]);
    say("pss", pss);
    for (int i = 0; i < FORKS; i++) say("fork", pids[i]);
    await();
    close(end[1]);
    while (wait(0) > 0) {}
    return 0;
}
