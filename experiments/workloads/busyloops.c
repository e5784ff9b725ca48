/* SPDX-License-Identifier: GPL-2.0 */
/*
 * busyloops N LOOPS - a fixed amount of work, LOOPS turns of an empty loop, split over N processes
 * that are always runnable (Redline section 8.1, Fig. 4b). All start together when the last one is
 * forked. Prints the time from there until the last one has ended.
 */
#include "lib.h"
#include <sys/wait.h>

int main(int count, char **words)
{
	if (count < 3) {
		fprintf(stderr, "usage: busyloops N LOOPS\n");
		return 2;
	}
	pid_t parent = getpid();
	int64_t n = number("N", words[1], 1, 100000);
	int64_t loops = number("LOOPS", words[2], n, 1000000000000LL) / n;
	int gate[2];
	char byte;

	if (pipe(gate))
		fail("pipe");
	for (int64_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			be_child(parent, 0);
			close(gate[1]);
			if (read(gate[0], &byte, 1) < 0) /* end of file when the gate opens */
				fail("read");
			for (int64_t k = 0; k < loops; k++)
				__asm__ volatile("");
			_exit(0);
		}
	}
	sleep(1); /* all children have reached the gate */
	int64_t start = now_ns();

	close(gate[1]);
	while (wait(NULL) > 0)
		;
	printf("{\"tasks\": %lld, \"loops\": %lld, \"seconds\": %.6f}\n", (long long)n,
	       (long long)(loops * n), (now_ns() - start) / 1e9);
	return 0;
}
