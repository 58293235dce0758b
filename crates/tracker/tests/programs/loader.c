// Loads and unloads libraries, each time another at (very likely) the same address: `loader A B TIMES`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *(*allocate)(size_t);

int main(int argc, char **argv) {
    int times = argc > 3 ? atoi(argv[3]) : 1;
    for (int i = 0; i < times; i++) {
        void *library = dlopen(argv[1 + i % 2], RTLD_NOW | RTLD_LOCAL);
        if (!library) { fprintf(stderr, "%s\n", dlerror()); return 1; }
        allocate function = (allocate)dlsym(library, "plugin_allocate");
        size_t bytes = 62000 + 2 * (size_t)i + (i % 2);
        void *block = function(bytes);
        printf("%zu %lx %lx\n", bytes, (unsigned long)block, (unsigned long)function);
        dlclose(library);
    }
    fflush(stdout);
    return 0;
}
