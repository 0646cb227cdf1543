/* Stands between a program and the C library: writes down the calls that change files below a folder, and lets one of
   them fail. Loaded by LD_PRELOAD; armed by `file_calls_arm`. Linux only. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_FILES 4096
#undef open
#undef open64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX] = "";
static int log_file = -1;
static long fail_at = -1, n_calls = 0;
static int fail_with = EIO;
static char fail_kinds[64] = "";
static char failed_call[PATH_MAX + 32] = "";
static char *paths[MOST_FILES];


/* With a log, record; with a number, let the call of this number fail, of those whose kind is one of the letters. */
void file_calls_arm(const char *folder, const char *log, long number, int error, const char *kinds) {
    pthread_mutex_lock(&lock);
    snprintf(root, sizeof root, "%s", folder);
    if (log_file >= 0) syscall(SYS_close, log_file);
    log_file = log[0] ? (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (number >= -1) failed_call[0] = 0; /* below it, what failed is still told */
    fail_at = number, fail_with = error, n_calls = 0;
    snprintf(fail_kinds, sizeof fail_kinds, "%s", kinds);
    pthread_mutex_unlock(&lock);
}

long file_calls_counted(void) { return n_calls; }
const char *file_calls_failed(void) { return failed_call; }

static int is_ours(const char *path) {
    size_t n = strlen(root);
    return n && path && strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static void absolute(int folder, const char *path, char *out) {
    char base[PATH_MAX] = "", link[64];
    if (path[0] == '/') { snprintf(out, PATH_MAX, "%s", path); return; }
    if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) base[0] = 0; }
    else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t n = readlink(link, base, sizeof base - 1);
        base[n > 0 ? n : 0] = 0;
    }
    if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) out[0] = 0;
}

/* Does this call fail? Kinds: w write, t truncate, s sync, r read, n rename, u unlink, m mkdir, o open. */
static int fails(char kind, const char *path) {
    if (fail_at < 0 || !strchr(fail_kinds, kind)) return 0;
    if (n_calls++ != fail_at) return 0;
    snprintf(failed_call, sizeof failed_call, "%c %s", kind, path);
    errno = fail_with;
    return 1;
}

/* One line: kind, path, other path, offset, length; then so many bytes. */
static void note(char kind, const char *path, const char *other, long long offset, long long length, const void *data) {
    if (log_file < 0) return;
    int kept = errno;
    char head[2 * PATH_MAX + 96];
    int n = snprintf(head, sizeof head, "%c\t%s\t%s\t%lld\t%lld\n", kind, path, other ? other : "", offset, length);
    struct iovec parts[2] = {{head, (size_t)n}, {(void *)data, data ? (size_t)length : 0}};
    syscall(SYS_writev, log_file, parts, data ? 2 : 1);
    errno = kept;
}

static const char *path_of(int file) { return file >= 0 && file < MOST_FILES ? paths[file] : NULL; }

static void remember(int file, const char *path) {
    if (file < 0 || file >= MOST_FILES) return;
    pthread_mutex_lock(&lock);
    paths[file] = is_ours(path) ? strdup(path) : NULL;
    pthread_mutex_unlock(&lock);
}

static int opened(int folder, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    absolute(folder, path, full);
    int ours = is_ours(full), is_new = 0;
    struct stat found;
    if (ours) {
        is_new = (flags & O_CREAT) && syscall(SYS_newfstatat, AT_FDCWD, full, &found, 0) != 0;
        if (fails('o', full)) return -1;
    }
    int file = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (file >= 0) {
        remember(file, full);
        if (ours && is_new) note('c', full, NULL, 0, 0, NULL);
        if (ours && !is_new && (flags & O_TRUNC)) note('t', full, NULL, 0, 0, NULL);
    }
    return file;
}

#define MODE                                     \
    mode_t mode = 0;                             \
    if (flags & (O_CREAT | O_TMPFILE)) {         \
        va_list rest;                            \
        va_start(rest, flags);                   \
        mode = va_arg(rest, mode_t);             \
        va_end(rest);                            \
    }

int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE return opened(folder, path, flags, mode); }

int close(int file) {
    if (file >= 0 && file < MOST_FILES) paths[file] = NULL;
    return (int)syscall(SYS_close, file);
}

static ssize_t written(int file, const void *data, size_t size, off_t offset, int at) {
    const char *path = path_of(file);
    if (path && fails('w', path)) return -1;
    pthread_mutex_lock(&lock);
    if (path && !at) {
        struct stat found;
        int flags = (int)syscall(SYS_fcntl, file, F_GETFL);
        syscall(SYS_fstat, file, &found);
        offset = (flags & O_APPEND) ? found.st_size : (off_t)syscall(SYS_lseek, file, 0, SEEK_CUR);
    }
    ssize_t n = at ? syscall(SYS_pwrite64, file, data, size, offset) : syscall(SYS_write, file, data, size);
    if (path && n > 0) note('w', path, NULL, offset, n, data);
    pthread_mutex_unlock(&lock);
    return n;
}

ssize_t write(int file, const void *data, size_t size) { return written(file, data, size, 0, 0); }
ssize_t pwrite(int file, const void *data, size_t size, off_t offset) { return written(file, data, size, offset, 1); }
ssize_t pwrite64(int file, const void *data, size_t size, off_t offset) { return written(file, data, size, offset, 1); }

static int cut(int file, off_t size) {
    const char *path = path_of(file);
    if (path && fails('t', path)) return -1;
    int done = (int)syscall(SYS_ftruncate, file, size);
    if (path && done == 0) note('t', path, NULL, size, 0, NULL);
    return done;
}
int ftruncate(int file, off_t size) { return cut(file, size); }
int ftruncate64(int file, off_t size) { return cut(file, size); }

static int synced(int file, long call) {
    const char *path = path_of(file);
    if (path && fails('s', path)) return -1;
    int done = (int)syscall(call, file);
    if (path && done == 0) note('s', path, NULL, 0, 0, NULL);
    return done;
}
int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }

ssize_t read(int file, void *data, size_t size) {
    const char *path = path_of(file);
    if (path && fails('r', path)) return -1;
    return syscall(SYS_read, file, data, size);
}
static ssize_t read_at(int file, void *data, size_t size, off_t offset) {
    const char *path = path_of(file);
    if (path && fails('r', path)) return -1;
    return syscall(SYS_pread64, file, data, size, offset);
}
ssize_t pread(int file, void *data, size_t size, off_t offset) { return read_at(file, data, size, offset); }
ssize_t pread64(int file, void *data, size_t size, off_t offset) { return read_at(file, data, size, offset); }

static int renamed(int from_folder, const char *from, int to_folder, const char *to) {
    char a[PATH_MAX], b[PATH_MAX];
    absolute(from_folder, from, a), absolute(to_folder, to, b);
    if (is_ours(a) && fails('n', a)) return -1;
    int done = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
    if (done == 0 && is_ours(a)) note('n', a, b, 0, 0, NULL);
    return done;
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int a, const char *from, int b, const char *to) { return renamed(a, from, b, to); }

static int removed(int folder, const char *path, int flags) {
    char full[PATH_MAX];
    absolute(folder, path, full);
    if (is_ours(full) && fails('u', full)) return -1;
    int done = (int)syscall(SYS_unlinkat, folder, path, flags);
    if (done == 0 && is_ours(full)) note('u', full, NULL, 0, 0, NULL);
    return done;
}
int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return removed(folder, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }

static int made(int folder, const char *path, mode_t mode) {
    char full[PATH_MAX];
    absolute(folder, path, full);
    if (is_ours(full) && fails('m', full)) return -1;
    int done = (int)syscall(SYS_mkdirat, folder, path, mode);
    if (done == 0 && is_ours(full)) note('m', full, NULL, 0, 0, NULL);
    return done;
}
int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return made(folder, path, mode); }
