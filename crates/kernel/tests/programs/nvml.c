// A management library of the same shape as NVIDIA's, with two devices. -DOLD: only _v2 of the process list;
// -DREFUSE: no driver.
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process;

static int started;

int nvmlInit_v2(void) {
#ifdef REFUSE
    return 9;
#endif
    return started++ ? 5 : 0;
}
int nvmlShutdown(void) { started--; return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return started ? 0 : 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned int length) {
    strncpy(name, device == (void *)1 ? "Fake A" : "Fake B", length);
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory *m) {
    m->total = 16ull << 30;
    m->used = (unsigned long long)(long)device << 30;
    m->free = m->total - m->used;
    return 0;
}
// 100 processes on the first device, so that the first room is too small; one of unknown size on the second.
static int list(void *device, unsigned int *count, process *list) {
    unsigned int n = device == (void *)1 ? 100 : 2;
    if (*count < n) { *count = n; return 7; }
    *count = n;
    for (unsigned int i = 0; i < n; i++) list[i] = (process){1000 + n - i, (i + 1) << 20, 0, 0};
    if (n == 2) list[1].used = ~0ull;
    return 0;
}
#ifdef OLD
int nvmlDeviceGetComputeRunningProcesses_v2(void *d, unsigned int *c, process *l) { return list(d, c, l); }
#else
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned int *c, process *l) { return list(d, c, l); }
#endif
