/* Loaded before the C library (LD_PRELOAD): what a process asks of its disk may fail or take long, and its wall clock
 * may stand elsewhere. tests/kit/process_faults.py writes the orders into a file that all of its processes map.
 *
 * Only calls on files below one directory are touched; sockets, libraries and the rest of the disk are not. Monotonic
 * clocks go on as they are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct orders {
    int64_t clock_offset_ns;
    uint32_t error_per_million, delay_per_million, delay_us, unused;
    uint64_t errors, delays; /* how many there were */
};

static struct orders *orders;
static const char *place;
static size_t place_length;
static __thread uint64_t chance;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("PROCESS_FAULTS");
    place = getenv("PROCESS_FAULTS_PLACE");
    int file = path && place ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof(struct orders), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return;
    place_length = strlen(place);
    orders = memory;
}

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

/* xorshift64*: good enough to draw one call in a thousand. */
static int strikes(uint32_t per_million) {
    if (!per_million) return 0;
    if (!chance) {
        struct timespec now;
        ((int (*)(clockid_t, struct timespec *))real("clock_gettime"))(CLOCK_MONOTONIC, &now);
        chance = (uint64_t)now.tv_nsec ^ ((uint64_t)getpid() << 32) ^ (uintptr_t)&chance ^ 0x9e3779b97f4a7c15u;
    }
    chance ^= chance >> 12;
    chance ^= chance << 25;
    chance ^= chance >> 27;
    return (chance * 0x2545f4914f6cdd1du >> 33) % 1000000 < per_million;
}

static int is_below_the_place(int file) {
    char link[40], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    return length > (ssize_t)place_length && !memcmp(path, place, place_length) && path[place_length] == '/';
}

/* Whether this call is to fail with EIO; has waited where it is to be slow. */
static int fails(int file) {
    if (!orders || !(orders->error_per_million | orders->delay_per_million) || !is_below_the_place(file)) return 0;
    if (strikes(orders->delay_per_million)) {
        __atomic_add_fetch(&orders->delays, 1, __ATOMIC_RELAXED);
        usleep(orders->delay_us);
    }
    if (!strikes(orders->error_per_million)) return 0;
    __atomic_add_fetch(&orders->errors, 1, __ATOMIC_RELAXED);
    errno = EIO;
    return 1;
}

#define TOUCHED(type, name, file, parameters, arguments)            \
    type name parameters {                                          \
        static type(*call) parameters;                              \
        if (!call) call = (type(*) parameters)real(#name);          \
        return fails(file) ? -1 : call arguments;                   \
    }

TOUCHED(ssize_t, read, file, (int file, void *data, size_t size), (file, data, size))
TOUCHED(ssize_t, pread, file, (int file, void *data, size_t size, off_t at), (file, data, size, at))
TOUCHED(ssize_t, pread64, file, (int file, void *data, size_t size, off64_t at), (file, data, size, at))
TOUCHED(ssize_t, preadv, file, (int file, const struct iovec *parts, int count, off_t at), (file, parts, count, at))
TOUCHED(ssize_t, preadv64, file, (int file, const struct iovec *parts, int count, off64_t at), (file, parts, count, at))
TOUCHED(ssize_t, write, file, (int file, const void *data, size_t size), (file, data, size))
TOUCHED(ssize_t, pwrite, file, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
TOUCHED(ssize_t, pwrite64, file, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
TOUCHED(ssize_t, writev, file, (int file, const struct iovec *parts, int count), (file, parts, count))
TOUCHED(ssize_t, pwritev, file, (int file, const struct iovec *parts, int count, off_t at), (file, parts, count, at))
TOUCHED(ssize_t, pwritev64, file, (int file, const struct iovec *parts, int count, off64_t at), (file, parts, count, at))
TOUCHED(ssize_t, sendfile, file, (int out, int file, off_t *at, size_t count), (out, file, at, count))
TOUCHED(ssize_t, sendfile64, file, (int out, int file, off64_t *at, size_t count), (out, file, at, count))
TOUCHED(int, fsync, file, (int file), (file))
TOUCHED(int, fdatasync, file, (int file), (file))
TOUCHED(int, ftruncate, file, (int file, off_t size), (file, size))
TOUCHED(int, ftruncate64, file, (int file, off64_t size), (file, size))

static void move(struct timespec *moment, int64_t by_ns) {
    int64_t ns = moment->tv_nsec + by_ns % 1000000000;
    moment->tv_sec += by_ns / 1000000000;
    if (ns < 0) ns += 1000000000, moment->tv_sec--;
    if (ns >= 1000000000) ns -= 1000000000, moment->tv_sec++;
    moment->tv_nsec = ns;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*call)(clockid_t, struct timespec *);
    if (!call) call = (int (*)(clockid_t, struct timespec *))real("clock_gettime");
    int status = call(clock, now);
    if (!status && orders && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        move(now, orders->clock_offset_ns);
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec moment;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &moment);
    now->tv_sec = moment.tv_sec;
    now->tv_usec = moment.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    if (now) *now = moment.tv_sec;
    return moment.tv_sec;
}

/* The kernel waits by its own clock for a moment that was told by the moved one. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*call)(sem_t *, const struct timespec *);
    if (!call) call = (int (*)(sem_t *, const struct timespec *))real("sem_timedwait");
    struct timespec moment = *until;
    if (orders) move(&moment, -orders->clock_offset_ns);
    return call(semaphore, &moment);
}
