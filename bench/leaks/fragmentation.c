/* Buffers that get larger with each step; all but 64 bytes of each is given back once the next one lies behind it.
   No hole is large enough for a later buffer: malloc keeps them all. Live memory stays small. */
#include <malloc.h>
#include "pace.h"
int main(void) {
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    char *last = NULL;
    for (int n = 0; n < 160; n++) {
        step(n, 160, 8);
        size_t size = 100000 + 1000 * (size_t)n;
        char *next = malloc(size);
        memset(next, n, size);
        if (last) last = realloc(last, 64);
        last = next;
    }
}
