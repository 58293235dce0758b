// Writes lines to standard output and standard error in turn, a thousand times, one call each.
#include "own.h"

int main(void) {
    char line[64];
    for (int i = 1; i <= 1000; i++) {
        int length = snprintf(line, sizeof line, "step %d\n", i);
        if (write(1, line, length) != length) return 1;
        length = snprintf(line, sizeof line, "warning %d\n", i);
        if (write(2, line, length) != length) return 1;
    }
    return 0;
}
