// Forks all the time for argv[1] children: each grows by a MiB, forks one of its own, waits for it and ends.
#include "own.h"

int main(int argc, char **argv) {
    int status, ended = 0;
    say("ready", getpid());
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 300); i++) {
        int child = fork();
        if (child == 0) {
            touch(1);
            int own = fork();
            if (own == 0) _exit(3);
            _exit(own > 0 && waitpid(own, &status, 0) == own && WEXITSTATUS(status) == 3 ? 5 : 1);
        }
        ended += waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5;
    }
    say("ended", ended);
    return 0;
}
