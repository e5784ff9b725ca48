/* SPDX-License-Identifier: GPL-2.0 */
/*
 * membomb N MB SECONDS [--sessions] - the memory bombs of Redline section 8.2: N tasks, "each of
 * which allocates 300 MB of heap space and then repeatedly writes to each page in an infinite
 * loop".
 *
 * The children never exec, so a specification of this program with flag I makes all of them
 * interactive. The parent kills the children after SECONDS, or when it gets SIGTERM. Each second
 * it records how many pages the children have written. Its own memory is locked: a record must not
 * wait for the swap device.
 *
 * Prints one line of JSON: the pages written in each second, in all, and how long the children
 * lived.
 */
#include <sys/mman.h>

#include "lib.h"

#define PAGE 4096
#define MOST_BOMBS 64
#define MOST_S 100000
#define LINE 64 /* bytes of a counter's own cache line */

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
			memory[i]++;
			*written += 1;
		}
	}
}

static int64_t sum(const volatile int64_t *counters, int64_t n)
{
	int64_t total = 0;

	for (int64_t i = 0; i < n; i++)
		total += counters[i * LINE / sizeof(*counters)];
	return total;
}

int main(int count, char **words)
{
	if (count < 4) {
		fprintf(stderr, "usage: membomb N MB SECONDS [--sessions]\n");
		return 2;
	}
	int64_t n = number("N", words[1], 1, MOST_BOMBS);
	int64_t bytes = number("MB", words[2], 1, 1 << 20) << 20;
	int64_t seconds = number("SECONDS", words[3], 1, MOST_S);
	int sessions = has_flag(count, words, "--sessions");
	pid_t parent = getpid(), children[MOST_BOMBS];
	volatile int64_t *counters =
		mmap(NULL, n * LINE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t *totals = calloc(seconds + 1, sizeof(*totals)), start = now_ns(), s = 0;

	if (counters == MAP_FAILED || !totals)
		fail("memory");
	/* Without the right to lock memory, as in a test on the host, the records may wait. */
	if (mlockall(MCL_CURRENT) && errno != ENOMEM && errno != EPERM)
		fail("mlockall");
	signal(SIGTERM, end);
	for (int64_t i = 0; i < n; i++) {
		children[i] = fork_or_die();
		if (children[i] == 0) {
			be_child(parent, sessions);
			write_pages(bytes, &counters[i * LINE / sizeof(*counters)]);
		}
	}
	while (s < seconds && !ending) {
		struct timespec due = { (start + (s + 1) * NS_PER_S) / NS_PER_S,
					(start + (s + 1) * NS_PER_S) % NS_PER_S };

		/* Not sleep_until_ns(): the signal ends the sleep. */
		if (!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL))
			totals[++s] = sum(counters, n);
	}
	for (int64_t i = 0; i < n; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	printf("{\"bombs\": %lld, \"mb\": %lld, \"pages\": %lld, \"gone_after_s\": %.3f, "
	       "\"pages_each_second\": [",
	       (long long)n, (long long)(bytes >> 20), (long long)sum(counters, n),
	       (double)(now_ns() - start) / NS_PER_S);
	for (int64_t i = 1; i <= s; i++)
		printf("%s%lld", i > 1 ? ", " : "", (long long)(totals[i] - totals[i - 1]));
	printf("]}\n");
	return 0;
}
