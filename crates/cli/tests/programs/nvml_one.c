// A management library of the shape of NVIDIA's with one device of 16 GiB. The process whose number stands in
// the file $NVML_PID_FILE holds 3 GiB of it, others 1 GiB.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = (void *)1; return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned int length) { strncpy(name, "Fake", length); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, memory *m) {
    *m = (memory){16ull << 30, 12ull << 30, 4ull << 30};
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process *list) {
    unsigned int pid = 0;
    FILE *file = fopen(getenv("NVML_PID_FILE"), "r");
    if (file) {
        if (fscanf(file, "%u", &pid) != 1) pid = 0;
        fclose(file);
    }
    if (*count < 1) { *count = 1; return 7; } // NVML_ERROR_INSUFFICIENT_SIZE
    *count = 1;
    list[0] = (process){pid, 3ull << 30, 0, 0};
    return 0;
}
