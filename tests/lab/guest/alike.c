/* SPDX-License-Identifier: GPL-2.0 */
/*
 * alike MB - so much memory that ksmd may merge, half of it alike and half not. Sleeps until it is
 * killed.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <sys/mman.h>

#define PAGE 4096

int main(int count, char **words)
{
	if (count != 2) {
		fprintf(stderr, "usage: alike MB\n");
		return 2;
	}
	size_t size = (size_t)number("MB", words[1], 1, 4096) << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, size, MADV_MERGEABLE))
		fail("memory that may be merged");
	memset(memory, 7, size);
	for (size_t at = 0; at < size; at += 2 * PAGE)
		memcpy(memory + at, &at, sizeof(at));
	for (;;)
		pause();
}
