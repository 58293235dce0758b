// Laps over an array of known pages, one store in each, with nothing between them: from the second lap on, all other pages of the
// array lie between two stores to the same page. Then one load in two of them.
// Without a library its trace is short: crates/import/fixtures/lackey.log is that of
//   cc -O1 -DBARE -DPAGES=40 -DLAPS=5 -fno-stack-protector -nostdlib -static
#define PAGE 4096
#ifndef BARE
#define PAGES 1000
#define LAPS 11
#endif

static volatile char array[PAGES * PAGE] __attribute__((aligned(PAGE)));

static int laps(void) {
    for (int lap = 0; lap < LAPS; lap++)
        for (long page = 0; page < PAGES; page++)
            array[page * PAGE] = 1;
    return *(volatile unsigned short *)(array + PAGE - 1) == 7; // 0; valgrind leaves out loads that nobody uses
}

#ifdef BARE
void _start(void) {
    __asm__ volatile("syscall" : : "a"(60), "D"(laps())); // exit
    __builtin_unreachable();
}
#else
int main(void) {
    return laps();
}
#endif
