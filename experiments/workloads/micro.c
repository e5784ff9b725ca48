/* SPDX-License-Identifier: GPL-2.0 */
/*
 * micro TEST N [ARGUMENT…] - what a system call, a fork, and so on cost: the rows of QLinux's Table
 * 4, measured as lmbench measures them. lmbench itself is in no free archive, so this stands in for
 * it.
 *
 *   syscall N            getppid, a system call that does nothing else (lat_syscall null)
 *   fork N               fork of a child that ends at once, and wait for it (lat_proc fork)
 *   exec N PROGRAM       the same with exec of PROGRAM (lat_proc exec)
 *   context N P KB       a token goes round P processes by pipes, each reads KB of its own memory
 *                        (lat_ctx); the time of the same in one process is subtracted, so that
 *                        the cost of the switch remains, caches included
 *   udp N                a byte to another process and back by UDP on the loopback (lat_udp)
 *   fault N FILE         a page fault on a page of FILE that is in the page cache (lat_pagefault)
 *   touch N MB           the first write to a page of anonymous memory, MB of it at a time
 *   files N FOLDER       create N empty files in FOLDER, then delete them (lat_fs)
 *
 * Each test first does a tenth of N unmeasured. Prints one line of JSON: {"ns": mean of one
 * operation} (files: two numbers).
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "lib.h"

#define MOST_PROCESSES 128
#define PAGE 4096
#define AROUND (64 << 10) /* the kernel's fault_around_bytes */

static void say(double ns)
{
	printf("{\"ns\": %.1f}\n", ns);
}

static pid_t start(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	return pid;
}

static double system_calls(int64_t n)
{
	int64_t from = now_ns();

	for (int64_t i = 0; i < n; i++)
		syscall(SYS_getppid);
	return (double)(now_ns() - from) / n;
}

static double children(int64_t n, char *program)
{
	char *words[] = { program, NULL };
	int64_t from = now_ns();
	int status;

	for (int64_t i = 0; i < n; i++) {
		pid_t pid = start();

		if (pid == 0) {
			if (program)
				execv(program, words);
			_exit(program ? 127 : 0);
		}
		if (waitpid(pid, &status, 0) != pid || (program && status)) {
			fprintf(stderr, "%s failed\n", program ? program : "a child");
			exit(1);
		}
	}
	return (double)(now_ns() - from) / n;
}

static int64_t sum(const char *memory, int64_t bytes)
{
	int64_t total = 0;

	for (int64_t i = 0; i < bytes; i += sizeof(total))
		total += *(const volatile int64_t *)(memory + i);
	return total;
}

static void pass(int in, int out, const char *memory, int64_t bytes)
{
	char token;

	if (read(in, &token, 1) != 1)
		_exit(0); /* the ring is taken down */
	sum(memory, bytes);
	if (write(out, &token, 1) != 1)
		_exit(0);
}

/*
 * A token goes n hops round `processes`; ns a hop. With one process the token goes through one
 * pipe: no switch.
 */
static double ring(int64_t n, int processes, int64_t bytes)
{
	int pipes[MOST_PROCESSES][2];
	pid_t parent = getpid(), pids[MOST_PROCESSES];
	char *memory = calloc(1, bytes + 8);
	int64_t from = 0, warm = n / 10 / processes + 1, rounds = n / processes;

	if (!memory)
		fail("calloc");
	for (int i = 0; i < processes; i++)
		if (pipe(pipes[i]))
			fail("pipe");
	for (int i = 1; i < processes; i++) {
		pids[i] = start();
		if (pids[i] == 0) {
			be_child(parent, 0);
			memset(memory, i, bytes); /* pages of its own */
			for (;;)
				pass(pipes[i - 1][0], pipes[i][1], memory, bytes);
		}
	}
	memset(memory, 1, bytes);
	if (write(pipes[0][1], "x", 1) != 1)
		fail("write");
	for (int64_t i = 0; i < warm + rounds; i++) {
		if (i == warm)
			from = now_ns();
		pass(pipes[processes - 1][0], pipes[0][1], memory, bytes);
	}
	int64_t took = now_ns() - from;

	for (int i = 1; i < processes; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	for (int i = 0; i < processes; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	free(memory);
	return (double)took / (rounds * processes);
}

/*
 * n page faults, or a few more. One page of each AROUND bytes is touched, since the kernel also
 * maps the pages around the one of a fault; from the last one to the first, as lat_pagefault does.
 */
static double page_faults(int64_t n, const char *path)
{
	int file = open(path, O_RDONLY);
	int64_t done = 0, took = 0, from;
	struct stat about;

	if (file < 0 || fstat(file, &about) || about.st_size < AROUND)
		fail(path);
	int64_t bytes = about.st_size / AROUND * AROUND;

	while (done < n) {
		volatile char *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);

		if (memory == MAP_FAILED)
			fail("mmap");
		from = now_ns();
		for (int64_t i = bytes - AROUND; i >= 0; i -= AROUND)
			(void)memory[i];
		took += now_ns() - from;
		done += bytes / AROUND;
		munmap((void *)memory, bytes);
	}
	close(file);
	return (double)took / done;
}

/* Pages of new memory: allocated, cleared, charged and given back. */
static double new_pages(int64_t n, int64_t bytes)
{
	int64_t done = 0, from = now_ns();

	while (done < n) {
		volatile char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			fail("mmap");
		for (int64_t i = 0; i < bytes; i += PAGE)
			memory[i] = 1;
		done += bytes / PAGE;
		munmap((void *)memory, bytes);
	}
	return (double)(now_ns() - from) / done;
}

static int udp_socket(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (s < 0 || bind(s, (struct sockaddr *)address, length) ||
	    getsockname(s, (struct sockaddr *)address, &length))
		fail("socket");
	return s;
}

static double udp(int64_t n)
{
	struct sockaddr_in here, there;
	pid_t parent = getpid();
	int mine = udp_socket(&here), theirs = udp_socket(&there);
	char byte = 'x';

	if (connect(mine, (struct sockaddr *)&there, sizeof(there)) ||
	    connect(theirs, (struct sockaddr *)&here, sizeof(here)))
		fail("connect");
	pid_t pid = start();

	if (pid == 0) {
		be_child(parent, 0);
		while (recv(theirs, &byte, 1, 0) == 1 && send(theirs, &byte, 1, 0) == 1)
			;
		_exit(1);
	}
	int64_t from = now_ns();

	for (int64_t i = 0; i < n; i++)
		if (send(mine, &byte, 1, 0) != 1 || recv(mine, &byte, 1, 0) != 1)
			fail("udp");
	int64_t took = now_ns() - from;

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return (double)took / n;
}

static void files(int64_t n, const char *folder, double *create, double *delete)
{
	char path[PATH_MAX];
	int64_t times[3] = { now_ns() };

	for (int turn = 0; turn < 2; turn++) {
		for (int64_t i = 0; i < n; i++) {
			snprintf(path, sizeof(path), "%s/f%lld", folder, (long long)i);
			int file =
				turn ? unlink(path) : open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

			if (file < 0)
				fail(path);
			if (!turn)
				close(file);
		}
		times[turn + 1] = now_ns();
	}
	*create = (double)(times[1] - times[0]) / n;
	*delete = (double)(times[2] - times[1]) / n;
}

int main(int count, char **words)
{
	const char *test = count > 2 ? words[1] : "";
	int64_t n = count > 2 ? number("N", words[2], 10, 1000000000) : 0;
	double create, delete;

	if (!strcmp(test, "syscall") && count == 3) {
		system_calls(n / 10);
		say(system_calls(n));
	} else if ((!strcmp(test, "fork") && count == 3) || (!strcmp(test, "exec") && count == 4)) {
		children(n / 10, words[3]); /* NULL for fork: the end of the words */
		say(children(n, words[3]));
	} else if (!strcmp(test, "context") && count == 5) {
		int processes = number("P", words[3], 2, MOST_PROCESSES);
		int64_t bytes = number("KB", words[4], 0, 65536) * 1024;
		double own = ring(n, 1, bytes);

		say(ring(n, processes, bytes) - own);
	} else if (!strcmp(test, "udp") && count == 3) {
		udp(n / 10);
		say(udp(n));
	} else if (!strcmp(test, "fault") && count == 4) {
		page_faults(n / 10, words[3]);
		say(page_faults(n, words[3]));
	} else if (!strcmp(test, "touch") && count == 4) {
		int64_t bytes = number("MB", words[3], 1, 1 << 20) << 20;

		new_pages(n / 10, bytes);
		say(new_pages(n, bytes));
	} else if (!strcmp(test, "files") && count == 4) {
		files(n / 10, words[3], &create, &delete);
		files(n, words[3], &create, &delete);
		printf("{\"create_ns\": %.1f, \"delete_ns\": %.1f}\n", create, delete);
	} else {
		fprintf(stderr, "usage: micro syscall|fork|udp N | exec N PROGRAM | context N P KB "
				"| fault N FILE | touch N MB | files N FOLDER\n");
		return 2;
	}
	return 0;
}
