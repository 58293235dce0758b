// A program that needs no headers, for systems whose headers are not installed: says that it ran.
void *malloc(unsigned long bytes);
void free(void *block);
int puts(const char *text);
int fflush(void *file);
void _exit(int code);

void _start(void) {
    void *block = malloc(35000);
    puts(block ? "ran 1" : "ran 0");
    free(block);
    fflush((void *)0);
    _exit(0);
}
