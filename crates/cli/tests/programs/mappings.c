// Cuts memory into argv[1] mappings of one page each: neighbours differ in protection and cannot be merged. Only then it is
// touched, so that what it is made of is asked for while they are all there.
#include "own.h"

int main(int argc, char **argv) {
    long made = 1, count = argc > 1 ? atol(argv[1]) : 60000;
    char *memory = mmap(0, count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (; made < count; made += 2)
        if (mprotect(memory + made * 4096, 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) break; // vm.max_map_count
    for (long page = 0; page < count; page++) memory[page * 4096] = 1;
    say("mappings", made);
    await();
    return 0;
}
