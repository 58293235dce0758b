/* A program that has an allocator inside, as far as its symbols tell. */
#include "truth.h"

void *mi_malloc(size_t size) { return malloc(size); }

int main(void) {
    open_truth();
    mi_malloc(100);
    ready();
    return 0;
}
