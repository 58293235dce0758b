/* A mapping of 128 KiB a step that is never unmapped. */
#include <sys/mman.h>
#include "pace.h"
int main(void) {
    for (int n = 0; n < 160; n++) {
        step(n, 160, 8);
        void *map = mmap(NULL, 131072, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(map, n + 1, 131072);
    }
}
