// Does what the lines on its standard input say and answers each with a number; first spikes argv[1] MiB.
#include "own.h"

static long hwm(void) { return field_kib("/proc/self/status", "VmHWM"); }

// Up and down at once: at its full height it stays for well under 5 ms.
static void spike(long mib) { munmap(touch(mib), mib << 20); }

static long mark(const char *text) {
    FILE *marks = fopen(getenv("NILO_MARKS"), "a");
    long at = clock_of(CLOCK_MONOTONIC);
    if (!marks || fputs(text, marks) < 0 || fclose(marks)) return -1;
    return at;
}

int main(int argc, char **argv) {
    char line[8192], word[16];
    long born = clock_of(CLOCK_MONOTONIC), number;
    if (argc > 1) spike(atol(argv[1]));
    say("ready", getpid());
    while (fgets(line, sizeof line, stdin)) {
        number = 0;
        sscanf(line, "%15s %ld", word, &number);
        if (!strcmp(word, "grow")) touch(number), say("rss", field_kib("/proc/self/status", "VmRSS"));
        else if (!strcmp(word, "spike")) spike(number), say("hwm", hwm());
        else if (!strcmp(word, "hwm")) say("hwm", hwm());
        else if (!strcmp(word, "born")) say("born", born);
        else if (!strcmp(word, "mark")) say("mark", mark(line + 5));
        else if (!strcmp(word, "last")) touch(number), say("hwm", hwm()), _exit(0);
        else if (!strcmp(word, "exit")) return number;
        else return 97;
    }
    return 0;
}
