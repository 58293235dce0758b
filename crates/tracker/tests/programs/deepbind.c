// A library bound to its own symbols first: its malloc and free are libc's, past the hooks; blocks cross over.
#define _GNU_SOURCE
#include "work.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | (argc > 2 ? RTLD_DEEPBIND : 0));
    if (!library) return 1;
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "plugin_allocate");
    for (int i = 0; i < 100; i++) {
        void *block = allocate(33000);
        free(block); // made there, freed here
        void *own = malloc(34000);
        KEEP(own);
        free(own);
    }
    work(100);
    printf("made %ld\n", made);
    return 0;
}
