// argv[1] grandchildren that end at once, each left by its parent: whoever adopts orphans waits for them.
#include "own.h"

int main(int argc, char **argv) {
    int made = 0, count = argc > 1 ? atoi(argv[1]) : 300;
    say("ready", getpid());
    await();
    for (; made < count; made++) {
        int child = fork();
        if (child == 0) {
            if (fork() == 0) touch(1), _exit(0);
            _exit(0);
        }
        if (waitpid(child, 0, 0) != child) return 1;
    }
    say("made", made);
    await();
    return 0;
}
