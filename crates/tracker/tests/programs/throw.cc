// Exceptions, aligned and array new, a failing new: counts by the program.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

struct alignas(128) Wide { char bytes[40064]; };

__attribute__((noinline)) static long thrower(int depth) {
    std::vector<char> held(50021);
    if (depth == 0) throw std::runtime_error("thrown");
    return thrower(depth - 1) + held[0];
}

int main(int argc, char **) {
    long caught = 0;
    for (int i = 0; i < 200; i++) {
        try { thrower(5); } catch (const std::exception &) { caught++; }
    }
    for (int i = 0; i < 50 && argc == 1; i++) { // an argument: without failures
        try { (void)::operator new(static_cast<std::size_t>(-1) / 4); } catch (const std::bad_alloc &) { caught++; }
    }
    for (int i = 0; i < 100; i++) delete new Wide;
    auto *lives = new Wide;
    auto *array = new char[60013];
    std::printf("caught %ld wide %p array %p\n", caught, static_cast<void *>(lives), static_cast<void *>(array));
    std::fflush(stdout);
    std::_Exit(0);
}
