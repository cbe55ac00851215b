/* Notes what a process writes below $POWER_CUT_BELOW, and what it has synced, in $POWER_CUT_LOG, in this order:
   one byte what, the lengths of path and data and the offset as 8 bytes each, path, data. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int log_fd = -1;
static const char *below;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("POWER_CUT_LOG");
  below = getenv("POWER_CUT_BELOW");
  if (path && below) log_fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void note(char what, const char *path, const void *data, uint64_t size, uint64_t offset) {
  if (log_fd < 0 || strncmp(path, below, strlen(below))) return;
  uint64_t head[3] = {strlen(path), size, offset};
  syscall(SYS_write, log_fd, &what, 1);
  syscall(SYS_write, log_fd, head, sizeof head);
  syscall(SYS_write, log_fd, path, head[0]);
  if (size) syscall(SYS_write, log_fd, data, size);
}

static void note_fd(char what, int fd, const void *data, uint64_t size, uint64_t offset) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = 0;
  note(what, path, data, size, offset);
}

static void note_at(char what, int dir, const char *name, const char *more) {
  char path[2 * PATH_MAX], link[64];
  ssize_t n = 0;
  if (name[0] != '/' && dir != AT_FDCWD) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    n = readlink(link, path, PATH_MAX);
    if (n <= 0) return;
    path[n++] = '/';
  }
  snprintf(path + n, PATH_MAX, "%s", name);
  note(what, path, more, more ? strlen(more) : 0, 0);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
  REAL(write);
  off_t at = lseek(fd, 0, SEEK_CUR);
  ssize_t n = real(fd, data, size);
  if (n > 0 && at >= 0) note_fd('w', fd, data, n, at);
  return n;
}
#define PWRITE(name, offset_type)                                          \
  ssize_t name(int fd, const void *data, size_t size, offset_type at) {    \
    REAL(name);                                                            \
    ssize_t n = real(fd, data, size, at);                                  \
    if (n > 0) note_fd('w', fd, data, n, at);                              \
    return n;                                                              \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
#define TRUNCATE(name, offset_type)                 \
  int name(int fd, offset_type size) {              \
    REAL(name);                                     \
    int done = real(fd, size);                      \
    if (!done) note_fd('t', fd, 0, 0, size);        \
    return done;                                    \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)
#define SYNC(name)                                  \
  int name(int fd) {                                \
    REAL(name);                                     \
    int done = real(fd);                            \
    if (!done) note_fd('s', fd, 0, 0, 0);           \
    return done;                                    \
  }
SYNC(fsync)
SYNC(fdatasync)
int unlink(const char *path) {
  REAL(unlink);
  int done = real(path);
  if (!done) note_at('u', AT_FDCWD, path, 0);
  return done;
}
int unlinkat(int dir, const char *path, int flags) {
  REAL(unlinkat);
  int done = real(dir, path, flags);
  if (!done) note_at('u', dir, path, 0);
  return done;
}
int rename(const char *from, const char *to) {
  REAL(rename);
  int done = real(from, to);
  if (!done) note_at('r', AT_FDCWD, from, to);
  return done;
}
int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  int done = real(path, mode);
  if (!done) note_at('d', AT_FDCWD, path, 0);
  return done;
}
