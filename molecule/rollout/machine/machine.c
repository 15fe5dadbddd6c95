// Copyright: (c) 2026, lockstep.gpu contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
//
// The kernel of a simulated machine, as far as programs ask it who it is. Named in /etc/ld.so.preload of the node:
// uname() gives the release in /run/machine/release; a file below /run/machine/files hides the one of its name in /proc
// and /sys; a module is loaded as a kernel of that release does on a machine without a GPU.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define RELEASE "/run/machine/release"
#define UP "/run/machine/up"
#define FILES "/run/machine/files"

static long raw(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long done;
	__asm__ volatile("syscall" : "=a"(done) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	if (done < 0 && done > -4096) {
		errno = (int)-done;
		return -1;
	}
	return done;
}

static int raw_open(int at, const char *path, int flags, mode_t mode)
{
	return (int)raw(SYS_openat, at, (long)path, flags, mode, 0, 0);
}

// Who comes from outside (docker exec: the parent is in no namespace of ours) waits until the machine is up, as one who calls a
// machine that is starting does; while it goes down it waits for its end.
__attribute__((constructor)) static void wait_until_up(void)
{
	int saved = errno;
	for (int tries = 0; tries < 3000 && raw(SYS_getpid, 0, 0, 0, 0, 0, 0) != 1 && !raw(SYS_getppid, 0, 0, 0, 0, 0, 0) &&
	     raw(SYS_access, (long)UP, F_OK, 0, 0, 0, 0); tries++)
		usleep(10000);
	errno = saved;
}

// The release, or "" before the machine is up.
static void release_of(char *text, size_t size)
{
	int saved = errno, handle = raw_open(AT_FDCWD, RELEASE, O_RDONLY | O_CLOEXEC, 0);
	long got = handle < 0 ? 0 : raw(SYS_read, handle, (long)text, (long)size - 1, 0, 0, 0);
	if (handle >= 0)
		raw(SYS_close, handle, 0, 0, 0, 0, 0);
	text[got > 0 ? got : 0] = 0;
	text[strcspn(text, "\n")] = 0;
	errno = saved;
}

int uname(struct utsname *name)
{
	long done = raw(SYS_uname, (long)name, 0, 0, 0, 0, 0);
	char text[sizeof name->release];
	release_of(text, sizeof text);
	if (!done && *text)
		strcpy(name->release, text);
	return (int)done;
}

// The path to open in the place of another one.
static const char *instead(const char *path, char *space, size_t size)
{
	int saved = errno;
	const char *found = path;
	if (path && (!strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5)) && snprintf(space, size, FILES "%s", path) < (int)size &&
	    !raw(SYS_access, (long)space, F_OK, 0, 0, 0, 0))
		found = space;
	errno = saved;
	return found;
}

static int opened(int at, const char *path, int flags, mode_t mode)
{
	char space[512];
	return raw_open(at, instead(path, space, sizeof space), flags, mode);
}

#define MODE(flags, last) \
	mode_t mode = 0; \
	if ((flags) & (O_CREAT | __O_TMPFILE)) { \
		va_list list; \
		va_start(list, last); \
		mode = va_arg(list, mode_t); \
		va_end(list); \
	}
int open(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, flags) return opened(at, path, flags, mode); }
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return opened(at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return opened(at, path, flags, 0); }

typedef FILE *opener(const char *, const char *);
static FILE *stream(const char *symbol, const char *path, const char *mode)
{
	char space[512];
	opener *real;
	*(void **)&real = dlsym(RTLD_NEXT, symbol);
	return real(instead(path, space, sizeof space), mode);
}
FILE *fopen(const char *path, const char *mode) { return stream("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return stream("fopen64", path, mode); }
FILE *setmntent(const char *path, const char *mode) { return stream("setmntent", path, mode); }

// A value of the section .modinfo of a module file.
static const char *told(const char *file, size_t size, const char *field)
{
	size_t length = strlen(field);
	for (const char *at = file; (at = memmem(at, size - (size_t)(at - file), field, length)); at++)
		if (at > file && at[-1] == 0)
			return at + length;
	return "";
}

static int load(const char *file, size_t size)
{
	char release[sizeof((struct utsname *)0)->release];
	const char *magic = told(file, size, "vermagic="), *name = told(file, size, "name=");
	release_of(release, sizeof release);
	if (strncmp(magic, release, strlen(release)) || magic[strlen(release)] != ' ')
		errno = ENOEXEC;
	else if (!strncmp(name, "nvidia", 6))
		errno = ENODEV;
	else
		return 0;
	return -1;
}

static int load_file(int handle)
{
	struct stat about;
	if (fstat(handle, &about) || !about.st_size) {
		errno = EINVAL;
		return -1;
	}
	char *file = mmap(0, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, handle, 0);
	if (file == MAP_FAILED)
		return -1;
	int done = load(file, (size_t)about.st_size), why = errno;
	munmap(file, (size_t)about.st_size);
	errno = why;
	return done;
}

int init_module(void *file, unsigned long size, const char *options) { (void)options; return load(file, size); }
int delete_module(const char *name, unsigned flags) { (void)name, (void)flags; errno = ENOENT; return -1; }

// libkmod calls finit_module in this way.
long syscall(long number, ...)
{
	long a, b, c, d, e, f;
	va_list list;
	va_start(list, number);
	a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
	d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
	va_end(list);
	if (number == SYS_finit_module)
		return load_file((int)a);
	if (number == SYS_init_module)
		return load((const char *)a, (size_t)b);
	return raw(number, a, b, c, d, e, f);
}
