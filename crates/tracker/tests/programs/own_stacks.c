// Threads on stacks of all kinds: the default, tiny, huge, without a guard, and memory of the program's own, also with a
// signal stack right below. Each allocates from a known depth and prints what its own unwinder saw: size and addresses.
#include "work.h"
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static int number;

__attribute__((noinline)) static void *deep(int depth) {
    if (depth) {
        void *block = deep(depth - 1);
        KEEP(block);
        return block;
    }
    void *frames[100];
    int size = 60000 + number;
    void *block = malloc(size);
    int count = backtrace(frames, 100);
    printf("%d", size);
    for (int n = 1; n < count; n++) printf(" %lx", (long)frames[n]);
    printf("\n");
    return block;
}

static void on_signal(int unused) {
    (void)unused;
    void *block = malloc(50000); // on another stack
    KEEP(block);
}

static void *run(void *below) {
    if (below) {
        stack_t other = {.ss_sp = below, .ss_size = 65536};
        sigaltstack(&other, NULL);
        raise(SIGUSR1);
    }
    number++;
    KEEP(deep(3));
    KEEP(deep(20));
    return NULL;
}

static void start(size_t size, size_t guard, void *own, void *below) {
    pthread_attr_t attribute;
    pthread_attr_init(&attribute);
    if (own) pthread_attr_setstack(&attribute, own, size);
    else if (size) pthread_attr_setstacksize(&attribute, size);
    pthread_attr_setguardsize(&attribute, guard);
    pthread_t id;
    if (pthread_create(&id, &attribute, run, below)) abort();
    pthread_join(id, NULL);
    pthread_attr_destroy(&attribute);
}

int main(void) {
    void *warm[4];
    backtrace(warm, 4);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    char *own = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    start(0, 4096, NULL, NULL);
    start(65536, 4096, NULL, NULL);
    start(65536, 0, NULL, NULL);
    start(64 << 20, 1 << 20, NULL, NULL);
    start(131072, 4096, own + 131072, NULL);
    start(131072, 4096, own + 262144 + 48, own + 262144 - 65536);
    return 0;
}
