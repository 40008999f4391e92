/* Another time for a process and all its children, by LD_PRELOAD: the wall clock shows so much more
 * than the kernel's, and so do the times of all files. Clocks that only measure are left alone.
 *
 * How much more, in nanoseconds, is what a file holds that all of them map: PENSTOCK_CLOCK. It may
 * change at any moment. What waits until a moment of the wall clock waits as long as it should.
 * Two more numbers tell of a clock that was set, as by date: until which moment of the kernel's clock
 * it showed how much more. What was written to files by then keeps its times.
 *
 * Files that end in .py keep their times: Python holds them against those in its own compiled
 * files, and would compile everything anew.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#define SECOND INT64_C(1000000000)
/* What counts from a machine's start is far below, what counts from 1970 far above. */
#define WALL 1000000000

static volatile int64_t *offset; /* now; of times of files until then; then, by the kernel */

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("PENSTOCK_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, 3 * sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(fd);
}

static int64_t ahead(void) { return offset ? *offset : 0; }

static void move(struct timespec *time, int64_t by) {
    int64_t nanoseconds = time->tv_nsec + by % SECOND;
    time->tv_sec += by / SECOND;
    if (nanoseconds >= SECOND) { nanoseconds -= SECOND; time->tv_sec++; }
    if (nanoseconds < 0) { nanoseconds += SECOND; time->tv_sec--; }
    time->tv_nsec = nanoseconds;
}

static int64_t ahead_at(const struct timespec *time) {
    if (!offset || time->tv_sec * SECOND + time->tv_nsec >= offset[2]) return ahead();
    return offset[1];
}

/* A function of the C library under its name; the newer one where it has two. */
static void *found(const char *name, const char *version) {
    void *function = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    return function ? function : dlsym(RTLD_NEXT, name);
}

#define REAL_OF(name, version)                                                                     \
    static __typeof__(name) *real;                                                                 \
    if (!real) real = (__typeof__(name) *)found(#name, version)
#define REAL(name) REAL_OF(name, NULL)

/* The clock. */

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) move(now, ahead());
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    if (base != TIME_UTC) return 0;
    clock_gettime(CLOCK_REALTIME, now);
    return base;
}

/* Waiting until a moment. */

static const struct timespec *kernels(const struct timespec *until, struct timespec *room) {
    if (!until || until->tv_sec < WALL) return until;
    *room = *until;
    move(room, -ahead());
    return room;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    REAL(clock_nanosleep);
    struct timespec room;
    return real(clock, flags, flags & TIMER_ABSTIME ? kernels(until, &room) : until, left);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    REAL_OF(pthread_cond_timedwait, "GLIBC_2.3.2");
    struct timespec room;
    return real(condition, mutex, kernels(until, &room));
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           clockid_t clock, const struct timespec *restrict until) {
    REAL(pthread_cond_clockwait);
    struct timespec room;
    return real(condition, mutex, clock, kernels(until, &room));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    REAL(pthread_mutex_timedlock);
    struct timespec room;
    return real(mutex, kernels(until, &room));
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    REAL(sem_timedwait);
    struct timespec room;
    return real(semaphore, kernels(until, &room));
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict until) {
    REAL(sem_clockwait);
    struct timespec room;
    return real(semaphore, clock, kernels(until, &room));
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
                  const struct timespec *restrict until) {
    REAL(cnd_timedwait);
    struct timespec room;
    return real(condition, mutex, kernels(until, &room));
}

int timerfd_settime(int fd, int flags, const struct itimerspec *wanted, struct itimerspec *before) {
    REAL(timerfd_settime);
    struct itimerspec moved;
    if (wanted && flags & TFD_TIMER_ABSTIME && wanted->it_value.tv_sec >= WALL) {
        moved = *wanted;
        move(&moved.it_value, -ahead());
        wanted = &moved;
    }
    return real(fd, flags, wanted, before);
}

/* The times of files, as they are told. */

static int is_source(const char *path) {
    size_t length = path ? strlen(path) : 0;
    return length > 3 && strcmp(path + length - 3, ".py") == 0;
}

static int told(int result, const char *path, struct stat *file) {
    if (result == 0 && !is_source(path)) {
        move(&file->st_atim, ahead_at(&file->st_atim));
        move(&file->st_mtim, ahead_at(&file->st_mtim));
        move(&file->st_ctim, ahead_at(&file->st_ctim));
    }
    return result;
}

static int told64(int result, const char *path, struct stat64 *file) {
    return told(result, path, (struct stat *)file);
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "files have one form on 64 bits");

int stat(const char *restrict path, struct stat *restrict file) {
    REAL(stat);
    return told(real(path, file), path, file);
}
int lstat(const char *restrict path, struct stat *restrict file) {
    REAL(lstat);
    return told(real(path, file), path, file);
}
int fstat(int fd, struct stat *file) {
    REAL(fstat);
    return told(real(fd, file), NULL, file);
}
int fstatat(int fd, const char *restrict path, struct stat *restrict file, int flags) {
    REAL(fstatat);
    return told(real(fd, path, file, flags), path, file);
}
int stat64(const char *restrict path, struct stat64 *restrict file) {
    REAL(stat64);
    return told64(real(path, file), path, file);
}
int lstat64(const char *restrict path, struct stat64 *restrict file) {
    REAL(lstat64);
    return told64(real(path, file), path, file);
}
int fstat64(int fd, struct stat64 *file) {
    REAL(fstat64);
    return told64(real(fd, file), NULL, file);
}
int fstatat64(int fd, const char *restrict path, struct stat64 *restrict file, int flags) {
    REAL(fstatat64);
    return told64(real(fd, path, file, flags), path, file);
}

/* What programs call that were built with an older C library. */
int __xstat(int version, const char *path, struct stat *file);
int __lxstat(int version, const char *path, struct stat *file);
int __fxstat(int version, int fd, struct stat *file);
int __fxstatat(int version, int fd, const char *path, struct stat *file, int flags);
int __xstat64(int version, const char *path, struct stat64 *file);
int __lxstat64(int version, const char *path, struct stat64 *file);
int __fxstat64(int version, int fd, struct stat64 *file);
int __fxstatat64(int version, int fd, const char *path, struct stat64 *file, int flags);

int __xstat(int version, const char *path, struct stat *file) {
    REAL(__xstat);
    return told(real(version, path, file), path, file);
}
int __lxstat(int version, const char *path, struct stat *file) {
    REAL(__lxstat);
    return told(real(version, path, file), path, file);
}
int __fxstat(int version, int fd, struct stat *file) {
    REAL(__fxstat);
    return told(real(version, fd, file), NULL, file);
}
int __fxstatat(int version, int fd, const char *path, struct stat *file, int flags) {
    REAL(__fxstatat);
    return told(real(version, fd, path, file, flags), path, file);
}
int __xstat64(int version, const char *path, struct stat64 *file) {
    REAL(__xstat64);
    return told64(real(version, path, file), path, file);
}
int __lxstat64(int version, const char *path, struct stat64 *file) {
    REAL(__lxstat64);
    return told64(real(version, path, file), path, file);
}
int __fxstat64(int version, int fd, struct stat64 *file) {
    REAL(__fxstat64);
    return told64(real(version, fd, file), NULL, file);
}
int __fxstatat64(int version, int fd, const char *path, struct stat64 *file, int flags) {
    REAL(__fxstatat64);
    return told64(real(version, fd, path, file, flags), path, file);
}

static void tell(struct statx_timestamp *time) {
    struct timespec moved = {time->tv_sec, time->tv_nsec};
    move(&moved, ahead_at(&moved));
    time->tv_sec = moved.tv_sec;
    time->tv_nsec = (uint32_t)moved.tv_nsec;
}

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict file) {
    REAL(statx);
    int result = real(fd, path, flags, mask, file);
    if (result == 0 && !is_source(path)) {
        tell(&file->stx_atime);
        tell(&file->stx_mtime);
        tell(&file->stx_ctime);
        tell(&file->stx_btime);
    }
    return result;
}

/* The times of files, as they are set. */

static const struct timespec *set(const struct timespec times[2], struct timespec room[2]) {
    if (!times) return NULL;
    for (int at = 0; at < 2; at++) {
        room[at] = times[at];
        if (room[at].tv_nsec != UTIME_NOW && room[at].tv_nsec != UTIME_OMIT) move(&room[at], -ahead());
    }
    return room;
}

int utimensat(int fd, const char *path, const struct timespec times[2], int flags) {
    REAL(utimensat);
    struct timespec room[2];
    return real(fd, path, is_source(path) ? times : set(times, room), flags);
}

int futimens(int fd, const struct timespec times[2]) {
    REAL(futimens);
    struct timespec room[2];
    return real(fd, set(times, room));
}

static const struct timespec *precise(const struct timeval times[2], struct timespec room[2]) {
    if (!times) return NULL;
    for (int at = 0; at < 2; at++) {
        room[at].tv_sec = times[at].tv_sec;
        room[at].tv_nsec = times[at].tv_usec * 1000;
    }
    return room;
}

int utimes(const char *path, const struct timeval times[2]) {
    struct timespec room[2];
    return utimensat(AT_FDCWD, path, precise(times, room), 0);
}

int lutimes(const char *path, const struct timeval times[2]) {
    struct timespec room[2];
    return utimensat(AT_FDCWD, path, precise(times, room), AT_SYMLINK_NOFOLLOW);
}

int futimes(int fd, const struct timeval times[2]) {
    struct timespec room[2];
    return futimens(fd, precise(times, room));
}

int futimesat(int fd, const char *path, const struct timeval times[2]) {
    struct timespec room[2];
    return utimensat(fd, path, precise(times, room), 0);
}

int utime(const char *path, const struct utimbuf *times) {
    struct timespec room[2];
    if (!times) return utimensat(AT_FDCWD, path, NULL, 0);
    room[0].tv_sec = times->actime;
    room[1].tv_sec = times->modtime;
    room[0].tv_nsec = room[1].tv_nsec = 0;
    return utimensat(AT_FDCWD, path, room, 0);
}
