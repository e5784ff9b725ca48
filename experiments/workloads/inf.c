/* SPDX-License-Identifier: GPL-2.0 */
/*
 * inf N [FILE] - N processes that compute for ever and count their turns: QLinux's Inf
 * (section 3.1), and its Dhrystone: a turn copies and compares a string and does some whole-number
 * arithmetic, as that benchmark does.
 *
 * FILE holds N counters of 8 bytes, in turns, each in its own cache line. The processes map it: so
 * counting costs no system call, and sampler reads the counters without a delay for the processes.
 * The processes end with their parent, which only waits.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "lib.h"

#define LINE 64 /* bytes of a counter's own cache line */

static void compute(volatile int64_t *turns)
{
	char from[32] = "DHRYSTONE PROGRAM, SOME STRING", to[32];
	uint32_t value = 1;

	for (;;) {
		for (int i = 0; i < 50; i++) {
			memcpy(to, from, sizeof(to));
			__asm__ volatile("" : : "r"(to) : "memory"); /* keeps the copy in */
			value = value * 3 + (uint32_t)memcmp(to, from, sizeof(to)) + (value >> 7);
			__asm__ volatile("" : "+r"(value));
		}
		*turns += 1;
	}
}

int main(int count, char **words)
{
	if (count < 2 || count > 3) {
		fprintf(stderr, "usage: inf N [FILE]\n");
		return 2;
	}
	int64_t n = number("N", words[1], 1, 10000);
	pid_t parent = getpid();
	char *counters;

	if (count == 3) {
		int file = open(words[2], O_RDWR | O_CREAT | O_TRUNC, 0644);

		if (file < 0 || ftruncate(file, n * LINE))
			fail(words[2]);
		counters = mmap(NULL, n * LINE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	} else {
		counters = mmap(NULL, n * LINE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				-1, 0);
	}
	if (counters == MAP_FAILED)
		fail("mmap");
	for (int64_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			be_child(parent, 0);
			compute((volatile int64_t *)(counters + i * LINE));
		}
	}
	for (;;)
		pause();
}
