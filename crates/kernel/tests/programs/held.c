// Holds known values in every register, in the red zone and in the vector registers, spinning or inside a system call, until a line
// comes; then compares them, its signal mask and its alternate stack with what they were. Exit code 0 if all is as it was.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct image {
    uint64_t general[14]; // rbx rcx rdx rsi rdi rbp r8..r15
    uint64_t red[16];
    uint32_t mxcsr, control;
    uint8_t vector[32 * 64];
} __attribute__((aligned(64)));

struct image given, found;
volatile uint32_t gate, inside;
long number = -1, result; // -1: spin
uint64_t use_wide;

__asm__(
    ".globl hold\nhold:\n"
    " push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " ldmxcsr given+240(%rip)\n fldcw given+244(%rip)\n"
    " lea given+248(%rip), %rax\n"
    " cmpq $0, use_wide(%rip)\n je 1f\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    " vmovdqu64 \\n*64(%rax), %zmm\\n\n .endr\n jmp 2f\n"
    "1:\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu \\n*64(%rax), %ymm\\n\n .endr\n"
    "2:\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    " mov given+112+\\n*8(%rip), %rax\n mov %rax, -8-\\n*8(%rsp)\n .endr\n"
    " mov given(%rip), %rbx\n mov given+8(%rip), %rcx\n mov given+16(%rip), %rdx\n mov given+24(%rip), %rsi\n"
    " mov given+32(%rip), %rdi\n mov given+40(%rip), %rbp\n mov given+48(%rip), %r8\n mov given+56(%rip), %r9\n"
    " mov given+64(%rip), %r10\n mov given+72(%rip), %r11\n mov given+80(%rip), %r12\n mov given+88(%rip), %r13\n"
    " mov given+96(%rip), %r14\n mov given+104(%rip), %r15\n"
    " movl $1, inside(%rip)\n"
    " mov number(%rip), %rax\n test %rax, %rax\n js 3f\n syscall\n mov %rax, result(%rip)\n jmp 4f\n"
    "3:\n cmpl $0, gate(%rip)\n je 3b\n"
    "4:\n"
    " mov %rbx, found(%rip)\n mov %rcx, found+8(%rip)\n mov %rdx, found+16(%rip)\n mov %rsi, found+24(%rip)\n"
    " mov %rdi, found+32(%rip)\n mov %rbp, found+40(%rip)\n mov %r8, found+48(%rip)\n mov %r9, found+56(%rip)\n"
    " mov %r10, found+64(%rip)\n mov %r11, found+72(%rip)\n mov %r12, found+80(%rip)\n mov %r13, found+88(%rip)\n"
    " mov %r14, found+96(%rip)\n mov %r15, found+104(%rip)\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    " mov -8-\\n*8(%rsp), %rax\n mov %rax, found+112+\\n*8(%rip)\n .endr\n"
    " stmxcsr found+240(%rip)\n fnstcw found+244(%rip)\n"
    " lea found+248(%rip), %rax\n"
    " cmpq $0, use_wide(%rip)\n je 5f\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    " vmovdqu64 %zmm\\n, \\n*64(%rax)\n .endr\n jmp 6f\n"
    "5:\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu %ymm\\n, \\n*64(%rax)\n .endr\n"
    "6:\n vzeroupper\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");
void hold(void);

static int wake[2];
static volatile uint32_t word;
static const struct timespec moment = {0, 400000000};

// Waits until the other thread holds its registers, says so, waits for a line, and lets it go.
static void *release(void *unused) {
    while (!inside) {
    }
    puts("ready");
    fflush(stdout);
    getchar();
    gate = 1;
    word = 1;
    if (write(wake[1], "x", 1) != 1) exit(9);
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
    return unused;
}

static void arguments(const char *mode) {
    static char byte;
    uint64_t *general = given.general; // rdx 2, rsi 3, rdi 4, r8 6, r9 7, r10 8
    if (!strcmp(mode, "read")) {
        number = SYS_read, general[4] = wake[0], general[3] = (uintptr_t)&byte, general[2] = 1;
    } else if (!strcmp(mode, "futex")) {
        number = SYS_futex, general[4] = (uintptr_t)&word, general[3] = FUTEX_WAIT, general[2] = 0, general[8] = 0;
    } else if (!strcmp(mode, "sleep")) {
        number = SYS_nanosleep, general[4] = (uintptr_t)&moment, general[3] = 0;
    }
}

static int differ(const char *what) {
    printf("%s\n", what);
    return 1;
}

int main(int count, char **words) {
    if (count < 2 || pipe(wake)) return 2;
    if (!__builtin_cpu_supports("avx2")) return 77;
    use_wide = __builtin_cpu_supports("avx512f") != 0;
    uint64_t seed = 88172645463325252u;
    uint64_t *cell = (uint64_t *)&given;
    for (size_t i = 0; i < sizeof given / 8; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        cell[i] = seed;
    }
    given.mxcsr = 0x1f80 | 0x8040; // flush to zero, denormals are zero
    given.control = 0x27f;         // double precision
    arguments(words[1]);
    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, stack_after;
    sigset_t mask, mask_after;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGRTMAX);
    pthread_t thread;
    if (pthread_create(&thread, NULL, release, NULL) || sigaltstack(&stack, NULL)) return 2;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    hold();
    pthread_sigmask(SIG_BLOCK, NULL, &mask_after);
    sigaltstack(NULL, &stack_after);
    if (number >= 0) given.general[1] = found.general[1], given.general[9] = found.general[9]; // rcx, r11
    if (!use_wide)
        for (int i = 0; i < 32; i++) memcpy(given.vector + 64 * i + (i < 16 ? 32 : 0), found.vector + 64 * i + (i < 16 ? 32 : 0), i < 16 ? 32 : 64);
    int bad = 0;
    if (memcmp(given.general, found.general, sizeof given.general)) bad |= differ("registers");
    if (memcmp(given.red, found.red, sizeof given.red)) bad |= differ("red zone");
    if (given.mxcsr != found.mxcsr || (uint16_t)given.control != (uint16_t)found.control) bad |= differ("control words");
    if (memcmp(given.vector, found.vector, sizeof given.vector)) bad |= differ("vector registers");
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (sigismember(&mask, signal) != sigismember(&mask_after, signal)) bad |= differ("signal mask");
    if (stack_after.ss_sp != stack.ss_sp || stack_after.ss_size != stack.ss_size || stack_after.ss_flags) bad |= differ("alternate stack");
    if (number == SYS_read && result != 1) bad |= differ("result of read");
    // Woken, or the value had changed when the call was made again.
    if (number == SYS_futex && result != 0 && result != -EAGAIN) bad |= differ("result of futex");
    if (number == SYS_nanosleep && result != 0 && result != -EINTR) bad |= differ("result of nanosleep");
    printf("%s%s\n", bad ? "broken" : "whole", number == SYS_nanosleep && result ? " interrupted" : "");
    fflush(stdout);
    pthread_join(thread, NULL);
    return bad;
}
