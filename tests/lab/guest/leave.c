/* SPDX-License-Identifier: GPL-2.0 */
/*
 * leave MB PAUSE_MS TIMES - writes to MB of memory, then TIMES times sleeps for PAUSE_MS and writes
 * to all of it again, as a program that its user left for a while. Prints, when it goes to sleep,
 * returns, worst_us (the longest write after a sleep) and faults (major ones, in all of these).
 */
#include "lib.h"
#include <sys/mman.h>
#include <sys/resource.h>

#define PAGE 4096

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_majflt;
}

static void print(int64_t returns, int64_t worst_ns, long major)
{
	printf("returns=%lld worst_us=%lld faults=%ld\n", (long long)returns,
	       (long long)(worst_ns / 1000), major);
	fflush(stdout);
}

int main(int count, char **words)
{
	int64_t bytes = argument(count, words, 1, 10) << 20, worst = 0;
	int64_t pause_ms = argument(count, words, 2, 1000), times = argument(count, words, 3, 1);
	volatile char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long before;

	if (memory == MAP_FAILED)
		fail("mmap");
	for (int64_t i = 0; i < bytes; i += PAGE)
		memory[i] = 1;
	before = faults();
	print(0, 0, 0);
	for (int64_t n = 1; n <= times; n++) {
		int64_t start;

		usleep(pause_ms * 1000);
		start = now_ns();
		for (int64_t i = 0; i < bytes; i += PAGE)
			memory[i]++;
		if (now_ns() - start > worst)
			worst = now_ns() - start;
		print(n, worst, faults() - before);
	}
	return 0;
}
