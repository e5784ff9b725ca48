/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rewrite SECONDS MB again|anew FILE… - a flood of writes: a task for each FILE writes MB to it, in
 * parts of 64 KB through the page cache, again and again.
 *  - again: over what is there, and never syncs (Redline section 8.3)
 *  - anew: from an empty file each time, with an fsync() at its end (dd conv=fsync)
 *
 * Ends after SECONDS or at SIGTERM. Prints one line of JSON: how many MB all tasks wrote in each
 * second. What is still in the page cache counts, too.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "lib.h"

#define PART (64 << 10)
#define MOST_FILES 16
#define MOST_S 100000
#define LINE 64 /* bytes between two counters, so that no two share a line of the cache */

static volatile sig_atomic_t ending;

static void end(int signal)
{
	ending = 1;
}

static void write_forever(const char *path, int64_t bytes, int anew, volatile int64_t *written)
{
	static char part[PART];
	int file = open(path, O_WRONLY | O_CREAT, 0644);

	if (file < 0)
		fail(path);
	memset(part, 'b', sizeof(part));
	for (;;) {
		if (lseek(file, 0, SEEK_SET) || (anew && ftruncate(file, 0)))
			fail(path);
		for (int64_t at = 0; at < bytes; at += PART) {
			if (write(file, part, PART) != PART)
				fail("write");
			*written += PART;
		}
		if (anew && fsync(file))
			fail("fsync");
	}
}

int main(int count, char **words)
{
	if (count < 5 || count - 4 > MOST_FILES ||
	    (strcmp(words[3], "again") && strcmp(words[3], "anew"))) {
		fprintf(stderr, "usage: rewrite SECONDS MB again|anew FILE...\n");
		return 2;
	}
	int64_t seconds = number("SECONDS", words[1], 1, MOST_S), n = count - 4, s = 0;
	int64_t bytes = number("MB", words[2], 1, 1 << 20) << 20;
	int anew = !strcmp(words[3], "anew");
	pid_t children[MOST_FILES];
	volatile char *counters =
		mmap(NULL, n * LINE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t *totals = calloc(seconds + 1, sizeof(*totals)), start = now_ns();

	if (counters == MAP_FAILED || !totals)
		fail("memory");
	signal(SIGTERM, end);
	for (int64_t i = 0; i < n; i++) {
		children[i] = fork_bound();
		if (!children[i]) {
			signal(SIGTERM, SIG_DFL);
			write_forever(words[4 + i], bytes, anew,
				      (volatile int64_t *)(counters + i * LINE));
		}
	}
	while (s < seconds && !ending) {
		int64_t when = start + (s + 1) * NS_PER_S;
		struct timespec due = { when / NS_PER_S, when % NS_PER_S };

		/* Not sleep_until_ns(): the signal ends the sleep. */
		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL))
			continue;
		s++;
		for (int64_t i = 0; i < n; i++)
			totals[s] += *(volatile int64_t *)(counters + i * LINE);
	}
	for (int64_t i = 0; i < n; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	printf("{\"written_mb\": [");
	for (int64_t i = 1; i <= s; i++)
		printf("%s%.2f", i > 1 ? ", " : "",
		       (double)(totals[i] - totals[i - 1]) / (1 << 20));
	printf("]}\n");
	return 0;
}
