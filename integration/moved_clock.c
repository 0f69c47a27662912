/* The wall clock of a process, moved by as many nanoseconds as a file says, which may be written at any time.
 *
 * Preloaded (ld.so(8), LD_PRELOAD) into a function, so that months turn and nights pass while a test runs. Time goes on as
 * fast as ever, or stands where a second number of the file is not zero: it is that many nanoseconds since 1970. What is measured
 * by the monotonic clock (timeouts, waits) is left alone. MOVED_CLOCK names the file. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t NANOSECONDS = 1000000000;
static const volatile int64_t *moved_by; /* and after it where the clock stands */

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("MOVED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, 2 * sizeof *moved_by, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        perror("MOVED_CLOCK");
        abort(); /* a test by the wrong clock would prove nothing */
    }
    close(file);
    moved_by = page;
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, which, now);
    if (failed == 0 && moved_by && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        int64_t stands_at = moved_by[1];
        int64_t all = stands_at ? stands_at : (int64_t)now->tv_sec * NANOSECONDS + now->tv_nsec + *moved_by;
        now->tv_sec = all / NANOSECONDS;
        now->tv_nsec = all % NANOSECONDS;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *where) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (where)
        *where = precise.tv_sec;
    return precise.tv_sec;
}
