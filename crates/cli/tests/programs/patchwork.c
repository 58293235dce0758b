// 60,000 mappings, and at a line "grow" 150 MiB; answers every other line. Deaf to SIGTERM; ends after a minute.
#include <signal.h>
#include "own.h"

int main(void) {
    const size_t pages = 60000;
    char line[64];
    alarm(60);
    signal(SIGTERM, SIG_IGN);
    char *memory = mmap(0, pages * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t page = 0; page < pages; page += 2)
        if (mprotect(memory + page * 4096, 4096, PROT_READ | PROT_WRITE)) return 1;
    say("ready", getpid());
    for (long answers = 1; fgets(line, sizeof line, stdin); answers++) {
        if (!strcmp(line, "grow\n")) touch(150);
        say("answer", answers);
    }
    return 7;
}
