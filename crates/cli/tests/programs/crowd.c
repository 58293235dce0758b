// Forks argv[1] children that live until the end, in rounds of argv[2] ("go" lines), each with our long command line.
#include "own.h"

int main(int argc, char **argv) {
    int end[2], rounds = argc > 2 ? atoi(argv[2]) : 1;
    char byte;
    if (argc < 2 || pipe(end)) return 1;
    say("ready", getpid());
    for (int round = 0; round < rounds; round++) {
        await();
        for (int i = 0; i < atoi(argv[1]); i++)
            if (fork() == 0) {
                close(end[1]);
                _exit(read(end[0], &byte, 1) != 0);
            }
        say("round", round);
    }
    await();
    close(end[1]);
    while (wait(0) > 0) {}
    return 33;
}
