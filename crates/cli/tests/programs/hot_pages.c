/* Touches stated pages of a stated mapping, over and over, as lines on standard input say; answers each line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile char *base;
static size_t page = 4096;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t first, count, stride;
static int writes, turns;

/* Clearing an accessed bit leaves the processor's own copy of it, and a touch by that copy is not seen: unmapping many
 * pages drops all copies. Shared, so that the kernel never joins it with the mapping beside it. */
static void forget_translations(void)
{
	enum { PAGES = 64 };
	char *at = mmap(0, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; at != MAP_FAILED && i < PAGES; i++)
		at[i * page] = 1;
	munmap(at, PAGES * page);
}

static void *touch(void *unused)
{
	for (;;) {
		forget_translations();
		pthread_mutex_lock(&lock);
		for (size_t i = 0; i < count; i++) {
			volatile char *at = base + (first + i * stride) * page;
			if (writes)
				*at = (char)i;
			else
				(void)*at;
		}
		turns++;
		pthread_mutex_unlock(&lock);
		usleep(1000);
	}
	return unused;
}

static void map(size_t bytes, const char *how)
{
	if (!strncmp(how, "lazy:", 5)) { /* a file of which nothing is mapped yet */
		base = mmap(0, bytes, PROT_READ, MAP_SHARED, open(how + 5, O_RDONLY), 0);
		if (base == MAP_FAILED)
			exit(3);
		printf("mapped %lu\n", (unsigned long)base);
		return;
	}
	int shared = !strcmp(how, "shared"), file = how[0] == '/';
	int fd = file ? open(how, O_RDWR) : -1;
	int flags = (shared || file ? MAP_SHARED : MAP_PRIVATE) | (file ? 0 : MAP_ANONYMOUS);
	size_t spare = file ? 0 : 2 << 20;
	char *all = mmap(0, bytes + spare, PROT_READ | PROT_WRITE, flags, fd, 0), *at = all;
	if (all == MAP_FAILED)
		exit(3);
	if (spare) { /* begins where a huge page may, and nothing else is in the mapping */
		at = (char *)(((uintptr_t)all + spare - 1) & ~(uintptr_t)(spare - 1));
		if (at > all)
			munmap(all, at - all);
		if (at + bytes < all + bytes + spare)
			munmap(at + bytes, all + spare - at);
	}
	if (!strcmp(how, "huge"))
		madvise(at, bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < bytes / page; i++)
		at[i * page] = 1;
	base = at;
	printf("mapped %lu\n", (unsigned long)at);
}

int main(void)
{
	char line[256], how[200];
	unsigned long bytes;
	pthread_t thread;
	pid_t child = 0;
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "map %lu %199s", &bytes, how) == 2) {
			map(bytes, how);
		} else if (sscanf(line, "hot %zu %zu %zu %199s", &first, &count, &stride, how) == 4) {
			writes = how[0] == 'w';
			pthread_create(&thread, 0, touch, 0);
			printf("hot\n");
		} else if (!strncmp(line, "next ", 5)) {
			pthread_mutex_lock(&lock);
			sscanf(line, "next %zu %zu %zu %199s", &first, &count, &stride, how);
			writes = how[0] == 'w';
			pthread_mutex_unlock(&lock);
			printf("next\n");
		} else if (!strncmp(line, "fork", 4)) {
			if (!(child = fork()))
				for (;;)
					pause();
			printf("forked\n");
		} else {
			break;
		}
		fflush(stdout);
	}
	if (child > 0)
		kill(child, SIGKILL);
	return 0;
}
