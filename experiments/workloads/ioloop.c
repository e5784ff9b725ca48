/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ioloop DEVICE WORK_US SECONDS - an I/O-bound program (Eclipse section 7.4; QLinux's IO_inf): one
 * thread reads blocks of 4 KiB at random places of DEVICE, past the page cache, one after the
 * other, and uses WORK_US of CPU time after each.
 *
 * The first second does not count: a new domain begins at the end of MTR-LS's list, once (mtr.h).
 *
 * Prints one line of JSON: requests, how long it took, requests a second, CPU time used.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "lib.h"

#define BLOCK 4096
#define LEAD_S 1

int main(int count, char **words)
{
	static char buffer[BLOCK] __attribute__((aligned(BLOCK)));

	if (count != 4) {
		fprintf(stderr, "usage: ioloop DEVICE WORK_US SECONDS\n");
		return 2;
	}
	int64_t work = number("WORK_US", words[2], 0, 1000000) * NS_PER_US;
	int64_t lasts = number("SECONDS", words[3], 1, 100000) * NS_PER_S;
	int file = open(words[1], O_RDONLY | O_DIRECT);
	int64_t blocks, n = 0, start, now, before = 0;
	uint64_t state = 88172645463325252ULL; /* xorshift64: the same places in every run */

	if (file < 0)
		fail(words[1]);
	blocks = lseek(file, 0, SEEK_END) / BLOCK;
	if (blocks < 1) {
		fprintf(stderr, "%s is shorter than %d bytes\n", words[1], BLOCK);
		return 2;
	}
	start = now_ns() + LEAD_S * NS_PER_S;
	for (now = start - LEAD_S * NS_PER_S; now - start < lasts; now = now_ns(), n++) {
		if (!before && now >= start) {
			start = now;
			n = 0;
			before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		}
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		if (pread(file, buffer, BLOCK, (off_t)(state % blocks) * BLOCK) != BLOCK)
			fail("pread");
		burn_ns(work);
	}
	printf("{\"requests\": %lld, \"seconds\": %.6f, \"per_second\": %.3f, \"cpu_s\": %.3f}\n",
	       (long long)n, (now - start) / 1e9, n * 1e9 / (now - start),
	       (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before) / 1e9);
	return 0;
}
