/* SPDX-License-Identifier: GPL-2.0 */
/*
 * heap MB - has so many megabytes, in small pages, and waits until it is killed. Then it has memory
 * to give back.
 */
#include "lib.h"
#include <string.h>
#include <sys/mman.h>

int main(int count, char **words)
{
	int64_t bytes = argument(count, words, 1, 32) << 20;
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE))
		fail("heap");
	memset(memory, 1, bytes);
	pause_forever();
}
