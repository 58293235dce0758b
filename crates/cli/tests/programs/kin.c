// One grown descendant of 50 MiB: "orphan" (its parent has died) or "thread" (made by a second thread).
#include "own.h"

static int ready[2], end[2];

static void live(void) {
    int pid = getpid();
    char byte;
    close(end[1]);
    touch(50);
    if (write(ready[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    _exit(read(end[0], &byte, 1) != 0);
}

static void *fork_here(void *unused) {
    if (fork() == 0) live();
    return unused;
}

int main(int argc, char **argv) {
    int pid;
    pthread_t thread;
    if (argc < 2 || pipe(ready) || pipe(end)) return 1;
    if (!strcmp(argv[1], "thread")) {
        pthread_create(&thread, 0, fork_here, 0);
        pthread_join(thread, 0);
    } else if ((pid = fork()) == 0) {
        if (fork() == 0) live();
        _exit(0);
    } else {
        waitpid(pid, 0, 0);
    }
    if (read(ready[0], &pid, sizeof pid) != sizeof pid) return 1;
    say("kin", pid);
    await();
    close(end[1]);
    wait(0);
    return 0;
}
