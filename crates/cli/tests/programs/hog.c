// Touches argv[1] MiB as fast as it can and then argv[2] MiB slowly, until a line or the end of its input.
// "deaf" ignores SIGTERM, "polite" exits with 5 at it, "huge" uses huge pages. It ends by itself after a minute.
#include <signal.h>
#include "own.h"

static void leave(int signal) { _exit(signal == SIGTERM ? 5 : 6); }

static void touch_huge(size_t mib) {
    char *memory = mmap(0, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, mib << 20, MADV_HUGEPAGE);
    for (size_t at = 0; at < mib << 20; at += 4096) memory[at] = 1;
}

int main(int argc, char **argv) {
    const struct timespec pace = {.tv_nsec = 5000000};
    const char *manner = argc > 3 ? argv[3] : "";
    if (argc < 3) return 1;
    alarm(60);
    if (!strcmp(manner, "deaf")) signal(SIGTERM, SIG_IGN);
    if (!strcmp(manner, "polite")) signal(SIGTERM, leave);
    say("ready", getpid());
    if (!strcmp(manner, "huge")) touch_huge(atol(argv[1]));
    else touch(atol(argv[1]));
    say("fast", atol(argv[1]));
    for (long mib = atol(argv[2]); mib > 0; mib--) touch(1), nanosleep(&pace, 0);
    say("slow", atol(argv[2]));
    await();
    return 0;
}
