// Allocates from many kinds of frames; beside each block prints the stack as glibc's own unwinder sees it.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NI __attribute__((noinline, noclone))
#define KEEP(block) __asm__ volatile("" ::"r"(block) : "memory")
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

NI void site(size_t bytes) {
    void *block = malloc(bytes), *stack[300];
    int count = backtrace(stack, 300);
    pthread_mutex_lock(&lock);
    printf("%zu", bytes);
    for (int i = 1; i < count; i++) printf(" %lx", (unsigned long)stack[i]); // 0 is this function
    printf("\n");
    pthread_mutex_unlock(&lock);
    KEEP(block);
}

NI void plain(size_t n) { site(n); KEEP(&n); }
NI void large(size_t n) { volatile char room[60000]; room[5] = 1; site(n); KEEP(room); }
NI void dynamic(size_t n) { char *room = alloca(n % 1000 + 17); KEEP(room); site(n); KEEP(room); }
NI void aligned(size_t n) { _Alignas(64) char room[256]; KEEP(room); plain(n); KEEP(room); }
NI void aligned_dynamic(size_t n) { _Alignas(128) char room[n % 512 + 1]; KEEP(room); site(n); KEEP(room); }
NI void saves(size_t n) {
    long a = (long)n, b = a * 3, c = b ^ 5, d = c + 7, e = d * 11, f = e ^ 13;
    KEEP(a); KEEP(b); KEEP(c); KEEP(d); KEEP(e); KEEP(f);
    site(n);
    printf("# %ld\n", a + b + c + d + e + f);
}
NI void deep(size_t n, int depth) { if (depth) deep(n, depth - 1); else site(n); KEEP(&n); }
static int compare(const void *a, const void *b) {
    static int once;
    if (!once++) site(50061);
    return *(const char *)a - *(const char *)b;
}
static void *thread(void *n) { aligned((size_t)n); deep((size_t)n + 1, 20); return NULL; }

extern void *__libc_stack_end;

int main(void) {
    void *warm[4];
    printf("# first frame %lx\n", (unsigned long)__libc_stack_end);
    backtrace(warm, 4); // loads libgcc now
    for (int round = 0; round < 3; round++) { // the second time from memory
        size_t base = 50000 + 100 * (size_t)round;
        plain(base + 1); large(base + 2); dynamic(base + 3); aligned(base + 4); aligned_dynamic(base + 5);
        saves(base + 6); deep(base + 7, 30); deep(base + 8, 29); plain(base + 9); deep(base + 10, 60);
    }
    char letters[] = "qwertyuiop";
    qsort(letters, 10, 1, compare);
    pthread_t id;
    pthread_create(&id, NULL, thread, (void *)50071);
    pthread_join(id, NULL);
    fflush(stdout);
    return 0;
}
