/* SPDX-License-Identifier: GPL-2.0 */
/*
 * orphans N PROGRAM - starts PROGRAM (this file again, under a name that has a spec) N times. Each
 * PROGRAM forks a child and ends at once, as daemons do; the child writes a byte after 0.5 ms of
 * CPU time. Prints the longest time from a start to its byte. The child first waits in the queue of
 * a server that ends with its parent.
 */
#include "lib.h"

#define BYTE_FD 9

static int start_child(void)
{
	if (fork_or_die())
		return 0;
	burn_ns(500 * NS_PER_US);
	return write(BYTE_FD, "x", 1) != 1;
}

int main(int count, char **words)
{
	int64_t worst = 0;

	if (count < 3)
		return start_child();
	for (int64_t i = argument(count, words, 1, 1); i > 0; i--) {
		int64_t start = now_ns();
		int ends[2];
		char byte;

		if (pipe(ends))
			return 1;
		if (!fork_or_die()) {
			dup2(ends[1], BYTE_FD);
			execl(words[2], words[2], (char *)NULL);
			_exit(1);
		}
		close(ends[1]);
		if (read(ends[0], &byte, 1) != 1)
			fprintf(stderr, "a child said nothing\n");
		close(ends[0]);
		if (now_ns() - start > worst)
			worst = now_ns() - start;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	printf("worst_us=%lld\n", (long long)(worst / NS_PER_US));
	return 0;
}
