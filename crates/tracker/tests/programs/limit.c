// Runs a command with a file size limit: `limit BYTES cmd …`.
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct rlimit limit = {(rlim_t)atol(argv[1]), (rlim_t)atol(argv[1])};
    if (argc < 3 || setrlimit(RLIMIT_FSIZE, &limit)) return 101;
    execv(argv[2], argv + 2);
    return 103;
}
