// Counts every signal it gets and answers one line for each line it reads:
//   counts              the signals that came and how often, "2=1 15=1"
//   wait N              the same, once N came again since the last wait
//   kill PID N          sends a signal
//   childkill PID N     the same from a new child, which stays a zombie
//   groupkill N         the same to its own process group
//   ignore N            ignores a signal from now on
//   touch MIB           makes that much memory resident
//   nobody              becomes an unprivileged user
//   name                gives itself a hostile name
//   exit CODE           ends; so does the end of its input
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile sig_atomic_t counts[65];
static int waited[65];

static void count(int signal) { counts[signal]++; }

static void print_counts(void) {
    const char *gap = "";
    for (int s = 1; s < 65; s++)
        if (counts[s]) printf("%s%d=%d", gap, s, (int)counts[s]), gap = " ";
    printf("%s\n", *gap ? "" : "none");
}

static void wait_for(int signal) {
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    while (counts[signal] == waited[signal]) sigsuspend(&old);
    waited[signal] = counts[signal];
    sigprocmask(SIG_SETMASK, &old, NULL);
    print_counts();
}

int main(void) {
    static const int left_alone[] = {SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGPIPE, 32, 33};
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    for (int s = 1; s < 65; s++) {
        int leave = 0;
        for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++) leave |= left_alone[i] == s;
        if (!leave) sigaction(s, &action, NULL);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready %d %d\n", (int)getpid(), (int)getppid());
    char line[256], word[32];
    while (fgets(line, sizeof line, stdin)) {
        int a = 0, b = 0;
        if (sscanf(line, "%31s %d %d", word, &a, &b) < 1) continue;
        if (!strcmp(word, "counts")) print_counts();
        else if (!strcmp(word, "wait")) wait_for(a);
        else if (!strcmp(word, "kill")) printf("sent %d\n", kill(a, b));
        else if (!strcmp(word, "groupkill")) printf("sent %d\n", kill(0, a));
        else if (!strcmp(word, "childkill")) {
            int ends[2];
            if (pipe(ends)) return 99;
            if (fork() == 0) {
                kill(a, b);
                _exit(0);
            }
            close(ends[1]);
            (void)!read(ends[0], word, 1); // closed when the child has ended
            close(ends[0]);
            puts("sent 0");
        } else if (!strcmp(word, "ignore")) signal(a, SIG_IGN), puts("ignored");
        else if (!strcmp(word, "touch")) {
            size_t size = (size_t)a << 20;
            volatile char *memory = malloc(size);
            for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
            puts("touched");
        } else if (!strcmp(word, "nobody")) {
            int failed = setgid(65534) || setuid(65534);
            printf("uid %d %d\n", (int)getuid(), failed);
        } else if (!strcmp(word, "name")) {
            prctl(PR_SET_NAME, "\033[2J\033]0;x\007\xff");
            puts("named");
        } else if (!strcmp(word, "exit")) return a;
    }
    return 0;
}
