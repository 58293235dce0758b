// A library whose static initialiser allocates through many paths, as operator registries do. WHICH tells
// two libraries of the same shape apart.
#include <cstdlib>
#include <map>
#include <string>

#ifndef WHICH
#define WHICH 1
#endif

#define NI __attribute__((noinline))
#define KEEP(block) __asm__ volatile("" ::"r"(block) : "memory")

NI static void enroll(int n) {
    void *block = std::malloc(61000 + WHICH);
    KEEP(block);
    if (n > 0) enroll(n - 1);
    KEEP(block);
}
NI static void path_a(int n) { enroll(n); KEEP(&n); }
NI static void path_b(int n) { enroll(n); KEEP(&n); }

struct Registry {
    std::map<std::string, int> names;
    Registry() {
        for (int i = 0; i < 50; i++) {
            names["operator number " + std::to_string(i)] = i;
            if (i & 1) path_a(i % 7);
            else path_b(i % 11);
        }
    }
};
static Registry registry;

extern "C" void *plugin_allocate(std::size_t bytes) {
    void *block = std::malloc(bytes);
    KEEP(block);
    return block;
}
