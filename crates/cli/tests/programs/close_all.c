// Closes every descriptor, uses 24 MiB and ends with code 9.
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    for (int fd = 0; fd <= 1024; fd++) close(fd);
    size_t size = 24u << 20;
    volatile char *memory = malloc(size);
    for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
    memory[size - 1] = 1;
    return memory[size - 1] == 1 ? 9 : 1;
}
