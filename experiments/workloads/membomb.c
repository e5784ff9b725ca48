/* SPDX-License-Identifier: GPL-2.0 */
/*
 * membomb N MB SECONDS [--sessions] [--again] - the memory bombs of Redline section 8.2: N tasks,
 * "each of which allocates 300 MB of heap space and then repeatedly writes to each page in an
 * infinite loop".
 *
 * A child writes to each cache line of a page. One write a page would be a miss of the TLB each
 * time, which takes the emulator many times as long as it takes the guest.
 *
 * The children never exec, so a specification of this program with flag I makes all of them
 * interactive. The parent kills the children after SECONDS, or when it gets SIGTERM. Each second
 * it records how many pages the children have written, and how much of them is resident. Its own
 * memory is locked: a record must not wait for the swap device. With --again a child that was
 * killed, as by the kernel when memory is used up, is started anew at once.
 *
 * Prints one line of JSON: when the children were started (monotonic clock), the pages written in
 * each second and in all, the MB that were resident at the end of each second, how long the
 * children lived, and how many were killed.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "lib.h"

#define PAGE 4096
#define MOST_BOMBS 64
#define MOST_S 100000
#define LINE 64 /* bytes of a cache line */

static volatile sig_atomic_t ending;

static void end(int signal)
{
	ending = 1;
}

static void write_pages(int64_t bytes, volatile int64_t *written)
{
	volatile char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	for (;;) {
		for (int64_t i = 0; i < bytes; i += PAGE) {
			for (int64_t k = i; k < i + PAGE; k += LINE)
				memory[k]++;
			*written += 1;
		}
	}
}

/* A child that ended interrupts the parent's sleep. */
static void child_ended(int signal)
{
}

static pid_t start_child(int64_t bytes, volatile int64_t *written, int own_session)
{
	pid_t parent = getpid(), pid = fork_or_die();

	if (pid == 0) {
		be_child(parent, own_session);
		write_pages(bytes, written);
	}
	return pid;
}

static int64_t sum(const volatile int64_t *counters, int64_t n)
{
	int64_t total = 0;

	for (int64_t i = 0; i < n; i++)
		total += counters[i * LINE / sizeof(*counters)];
	return total;
}

/* How many pages of a process are resident. 0: it has exited. */
static int64_t resident(pid_t pid)
{
	char path[64], text[256];
	long long pages = 0;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	int file = open(path, O_RDONLY);
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

	if (file >= 0)
		close(file);
	if (length < 0)
		return 0;
	text[length] = '\0';
	return sscanf(text, "%*s %lld", &pages) == 1 ? pages : 0;
}

int main(int count, char **words)
{
	if (count < 4) {
		fprintf(stderr, "usage: membomb N MB SECONDS [--sessions] [--again]\n");
		return 2;
	}
	int64_t n = number("N", words[1], 1, MOST_BOMBS);
	int64_t bytes = number("MB", words[2], 1, 1 << 20) << 20;
	int64_t seconds = number("SECONDS", words[3], 1, MOST_S);
	int sessions = has_flag(count, words, "--sessions");
	int again = has_flag(count, words, "--again");
	int64_t killed = 0;
	pid_t children[MOST_BOMBS];
	volatile int64_t *counters =
		mmap(NULL, n * LINE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t *totals = calloc(seconds + 1, sizeof(*totals)), start = now_ns(), s = 0;
	int64_t *there = calloc(seconds + 1, sizeof(*there));

	if (counters == MAP_FAILED || !totals || !there)
		fail("memory");
	/* Without the right to lock memory, as in a test on the host, the records may wait. */
	if (mlockall(MCL_CURRENT) && errno != ENOMEM && errno != EPERM)
		fail("mlockall");
	signal(SIGTERM, end);
	signal(SIGCHLD, child_ended);
	for (int64_t i = 0; i < n; i++)
		children[i] = start_child(bytes, &counters[i * LINE / sizeof(*counters)], sessions);
	while (s < seconds && !ending) {
		struct timespec due = { (start + (s + 1) * NS_PER_S) / NS_PER_S,
					(start + (s + 1) * NS_PER_S) % NS_PER_S };

		/* Not sleep_until_ns(): the signal ends the sleep. */
		if (!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL)) {
			totals[++s] = sum(counters, n);
			for (int64_t i = 0; i < n; i++)
				there[s] += resident(children[i]);
		}
		for (int64_t i = 0; again && i < n; i++) {
			if (waitpid(children[i], NULL, WNOHANG) != children[i])
				continue;
			killed++;
			children[i] = start_child(bytes, &counters[i * LINE / sizeof(*counters)],
						  sessions);
		}
	}
	for (int64_t i = 0; i < n; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	printf("{\"bombs\": %lld, \"mb\": %lld, \"pages\": %lld, \"start_s\": %.3f, "
	       "\"gone_after_s\": %.3f, \"killed\": %lld, \"pages_each_second\": [",
	       (long long)n, (long long)(bytes >> 20), (long long)sum(counters, n),
	       (double)start / NS_PER_S, (double)(now_ns() - start) / NS_PER_S, (long long)killed);
	for (int64_t i = 1; i <= s; i++)
		printf("%s%lld", i > 1 ? ", " : "", (long long)(totals[i] - totals[i - 1]));
	printf("], \"resident_mb\": [");
	for (int64_t i = 1; i <= s; i++)
		printf("%s%.1f", i > 1 ? ", " : "", (double)there[i] * PAGE / (1 << 20));
	printf("]}\n");
	return 0;
}
