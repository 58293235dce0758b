// What this kernel lets this user see of pages, tried without nilo. Each answer is a line "name errno", 0 when
// the facility was there and told the truth about pages of our own.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64 };

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    int error = write(fd, text, strlen(text)) < 0 ? errno : 0;
    close(fd);
    return error;
}

static volatile char *fresh_pages(int count) {
    char *memory = mmap(0, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(98);
    madvise(memory, count * PAGE, MADV_NOHUGEPAGE);
    for (int i = 0; i < count; i++) memory[i * PAGE] = 1;
    return memory;
}

// Clearing an accessed bit leaves the processor's own copy of it: unmapping many pages drops all copies.
static void forget_translations(void) { munmap((void *)fresh_pages(4 * PAGES), 4 * PAGES * PAGE); }

// The entry of a page in /proc/self/pagemap; 0 when there is none.
static uint64_t entry(volatile char *page) {
    uint64_t word = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &word, 8, (uintptr_t)page / PAGE * 8) != 8) word = 0;
    close(fd);
    return word;
}

static uint64_t frame(volatile char *page) { return entry(page) & ((1ULL << 55) - 1); }

static long referenced_kib(volatile char *page) {
    char line[512], start[32];
    long value = -1;
    int inside = 0;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    snprintf(start, sizeof start, "%lx-", (long)page);
    while (smaps && value < 0 && fgets(line, sizeof line, smaps)) {
        if (!strncmp(line, start, strlen(start))) inside = 1;
        if (inside) sscanf(line, "Referenced: %ld kB", &value);
    }
    if (smaps) fclose(smaps);
    return value;
}

// Cleared, then 16 of 64 pages touched: 64 KiB are referenced.
static int clear_refs(void) {
    volatile char *memory = mmap((void *)0x200000000000, PAGES * PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == MAP_FAILED) return errno;
    for (int i = 0; i < PAGES; i++) memory[i * PAGE] = 1;
    int error = put("/proc/self/clear_refs", "1");
    if (error) return error;
    forget_translations();
    for (int i = 0; i < 16; i++) memory[i * PAGE]++;
    return referenced_kib(memory) == 64 ? 0 : EIO;
}

static int soft_dirty(void) {
    volatile char *page = fresh_pages(1);
    int error = put("/proc/self/clear_refs", "4");
    if (error) return error;
    int before = entry(page) >> 55 & 1;
    page[0] = 2;
    int after = entry(page) >> 55 & 1;
    return !before && after ? 0 : ENOSYS;
}

// The word of the idle bitmap that holds a frame; 64 frames a word.
static uint64_t *idle_word(int fd, uint64_t pfn) {
    static uint64_t word;
    return pread(fd, &word, 8, pfn / 64 * 8) == 8 ? &word : 0;
}

// Marked idle a page reads as idle, touched it does not. Pages that still sit in a per-CPU batch cannot be marked:
// those that can be must tell the truth.
static int idle_pages(void) {
    volatile char *memory = fresh_pages(PAGES);
    int marked = 0, wrong = 0;
    int fd = open("/sys/kernel/mm/page_idle/bitmap", O_RDWR | O_CLOEXEC);
    if (fd < 0) return errno;
    if (!frame(memory)) return EPERM;
    for (int i = 0; i < PAGES; i++) {
        uint64_t pfn = frame(memory + i * PAGE), word = 1ULL << pfn % 64, *now;
        if (pwrite(fd, &word, 8, pfn / 64 * 8) != 8 || !(now = idle_word(fd, pfn))) return errno;
        if (!(*now & word)) continue;
        marked++;
        forget_translations();
        memory[i * PAGE]++;
        if (!(now = idle_word(fd, pfn))) return errno;
        wrong += (*now & word) != 0;
    }
    close(fd);
    return marked >= PAGES / 4 && !wrong ? 0 : EIO;
}

static int pagemap_scan(void) {
    // struct pm_scan_arg: size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, any, return
    volatile char *memory = fresh_pages(PAGES);
    uint64_t region[3] = {0};
    uint64_t scan[12] = {96, 0, (uintptr_t)memory, (uintptr_t)memory + PAGES * PAGE, 0, (uintptr_t)region, 1,
                         0, 0, 1 << 3, 0, 1 << 3};
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    long found = ioctl(fd, 0xc0606610, scan);
    if (found < 0) return errno;
    return found == 1 && region[0] == scan[2] && region[1] == scan[3] ? 0 : EIO;
}

// One kdamond set up and taken away again.
static int damon(void) {
    const char *count = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";
    int error = put(count, "1");
    if (error) return error;
    int there = !access("/sys/kernel/mm/damon/admin/kdamonds/0/state", F_OK);
    put(count, "0");
    return there ? 0 : EIO;
}

static int psi(void) {
    char line[256] = "";
    int fd = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    if (read(fd, line, sizeof line - 1) < 0) return errno;
    return strncmp(line, "some avg10=", 11) ? EIO : 0;
}

static int psi_trigger(const char *trigger) {
    int fd = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno;
    return write(fd, trigger, strlen(trigger) + 1) < 0 ? errno : 0;
}

static int faults_of_user_code(void) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
    if (fd < 0) return errno;
    struct uffdio_api api = {.api = UFFD_API};
    return ioctl(fd, UFFDIO_API, &api) ? errno : 0;
}

static int perf_faults(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr,
                                   .config = PERF_COUNT_SW_PAGE_FAULTS, .exclude_kernel = 1, .exclude_hv = 1};
    uint64_t count = 0;
    int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    if (fd < 0) return errno;
    fresh_pages(PAGES);
    if (read(fd, &count, 8) != 8) return errno;
    return count >= PAGES ? 0 : EIO;
}

int main(void) {
    printf("clear-refs %d\n", clear_refs());
    printf("soft-dirty %d\n", soft_dirty());
    printf("pagemap-scan %d\n", pagemap_scan());
    printf("pagemap-pfn %d\n", frame(fresh_pages(1)) ? 0 : EPERM);
    printf("idle-pages %d\n", idle_pages());
    printf("damon %d\n", damon());
    printf("psi %d\n", psi());
    printf("psi-trigger %d\n", psi_trigger("some 150000 2000000"));
    printf("userfaultfd %d\n", faults_of_user_code());
    printf("perf-faults %d\n", perf_faults());
    return 0;
}
