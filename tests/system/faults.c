/* Faults below a process, by LD_PRELOAD: syncs that fail or take long, a wall clock that jumps,
 * and a journal of what has reached the disk, from which the loss of power can be played.
 *
 * The control block is a file that the test maps and changes while the process runs; its layout
 * is repeated in faults.py. The journal has one line for each sync that succeeded:
 *   F inode size          what of a file is safe (its size before the sync began)
 *   D inode name/name/... what names a directory has kept
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    int64_t clock_offset_ms;
    int32_t sync_error;    /* errno of every sync of a matching file, or 0 */
    int32_t sync_delay_ms; /* before every sync of a matching file */
    char matching[240];    /* part of the path of the files that are meant; all if empty */
};

static volatile struct control *control;
static int journal = -1;
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void) {
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("PENSTOCK_FAULTS_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *mapped = mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED) control = mapped;
        close(fd);
    }
    path = getenv("PENSTOCK_FAULTS_JOURNAL");
    if (path) journal = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static int meant(int fd) {
    char link[64], path[4096];
    if (!control) return 0;
    if (!control->matching[0]) return 1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, (const char *)control->matching) != NULL;
}

static void write_down(int fd, const struct stat *before) {
    if (journal < 0) return;
    if (!S_ISDIR(before->st_mode)) {
        dprintf(journal, "F %ld %ld\n", (long)before->st_ino, (long)before->st_size);
        return;
    }
    char *line = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&line, &size);
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
    fprintf(text, "D %ld ", (long)before->st_ino);
    if (directory) {
        struct dirent *entry;
        while ((entry = readdir(directory)))
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
                fprintf(text, "%s/", entry->d_name);
        closedir(directory);
    }
    fputc('\n', text);
    fclose(text);
    if (write(journal, line, size) < 0) abort();
    free(line);
}

static int sync_with_faults(int fd, int (*sync)(int)) {
    struct stat before;
    int known = fstat(fd, &before) == 0;
    if (control && (control->sync_error || control->sync_delay_ms) && meant(fd)) {
        if (control->sync_delay_ms) usleep(1000u * (unsigned)control->sync_delay_ms);
        if (control->sync_error) {
            errno = control->sync_error;
            return -1;
        }
    }
    int result = sync(fd);
    if (result == 0 && known) write_down(fd, &before);
    return result;
}

int fsync(int fd) { return sync_with_faults(fd, real_fsync); }

int fdatasync(int fd) { return sync_with_faults(fd, real_fdatasync); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_clock_gettime) real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock_gettime(clock, now);
    if (result == 0 && control && control->clock_offset_ms &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t moved = control->clock_offset_ms;
        int64_t nanoseconds = now->tv_nsec + (moved % 1000) * 1000000;
        now->tv_sec += moved / 1000;
        if (nanoseconds >= 1000000000) { nanoseconds -= 1000000000; now->tv_sec++; }
        if (nanoseconds < 0) { nanoseconds += 1000000000; now->tv_sec--; }
        now->tv_nsec = nanoseconds;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (result) *result = precise.tv_sec;
    return precise.tv_sec;
}
