// Makes argv[1] children that end at once, one after the other, and says what they used in all.
#include "own.h"

int main(int argc, char **argv) {
    struct rusage used;
    int status, made = 0, count = argc > 1 ? atoi(argv[1]) : 1000;
    say("ready", getpid());
    await();
    long begin = clock_of(CLOCK_MONOTONIC);
    for (; made < count; made++) {
        int pid = fork();
        if (pid == 0) {
            touch(1);
            _exit(7);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7) return 1;
    }
    say("ms", (clock_of(CLOCK_MONOTONIC) - begin) / 1000000);
    getrusage(RUSAGE_CHILDREN, &used);
    say("faults", used.ru_minflt + used.ru_majflt);
    say("us", (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    await();
    return 0;
}
