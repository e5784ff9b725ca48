/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ctxring PROCESSES SWITCHES [WORKING_SET_KB] - what lmbench's lat_ctx measures (Redline Fig. 4a):
 * a token goes round a ring of processes through pipes; each sums up its working set when it has
 * the token. The cost of a switch is the time per hop less what the same pipe operations and sums
 * cost in one process alone. lmbench itself is not in Debian's free archive.
 */
#include "lib.h"
#include <sys/wait.h>

static volatile uint64_t sink;
static uint64_t *set;
static size_t words_in_set;

static void hop(int in, int out)
{
	int token;
	uint64_t sum = 0;

	if (read(in, &token, sizeof(token)) != sizeof(token))
		fail("read");
	for (size_t i = 0; i < words_in_set; i++)
		sum += set[i];
	sink = sum;
	if (write(out, &token, sizeof(token)) != sizeof(token))
		fail("write");
}

/* The hops of one process through all pipes in turn, as lat_ctx takes its overhead: ns per hop. */
static double overhead(int (*pipes)[2], int n, int64_t hops)
{
	int token = 1;
	int64_t start = 0;

	if (write(pipes[0][1], &token, sizeof(token)) != sizeof(token))
		fail("write");
	for (int64_t i = -n; i < hops; i++) {
		int at = (int)((i + n) % n);

		if (i == 0)
			start = now_ns();
		hop(pipes[at][0], pipes[(at + 1) % n][1]);
	}
	double each = (double)(now_ns() - start) / hops;

	if (read(pipes[(hops + n) % n][0], &token, sizeof(token)) != sizeof(token))
		fail("read");
	return each;
}

int main(int count, char **words)
{
	if (count < 3) {
		fprintf(stderr, "usage: ctxring PROCESSES SWITCHES [WORKING_SET_KB]\n");
		return 2;
	}
	pid_t parent = getpid();
	int n = (int)number("PROCESSES", words[1], 2, 400);
	int64_t rounds = number("SWITCHES", words[2], n, 1000000000) / n;
	int(*pipes)[2] = calloc(n, sizeof(*pipes));

	words_in_set = (count > 3 ? number("WORKING_SET_KB", words[3], 0, 65536) : 0) * 1024 /
		       sizeof(uint64_t);
	set = calloc(words_in_set + 1, sizeof(uint64_t));
	if (!pipes || !set)
		fail("calloc");
	for (int i = 0; i < n; i++)
		if (pipe(pipes[i]))
			fail("pipe");

	double alone = overhead(pipes, n, rounds * n);

	/*
	 * Process i reads pipe i and writes pipe i + 1; the parent is process 0. Two rounds warm
	 * up.
	 */
	for (int i = 1; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			be_child(parent, 0);
			for (size_t k = 0; k < words_in_set; k++)
				set[k] = k; /* pages of its own */
			for (int64_t r = 0; r < rounds + 2; r++)
				hop(pipes[i][0], pipes[(i + 1) % n][1]);
			_exit(0);
		}
	}
	int token = 1;
	int64_t start = 0;

	if (write(pipes[1][1], &token, sizeof(token)) != sizeof(token))
		fail("write");
	for (int64_t r = 0; r < rounds + 1; r++) {
		if (r == 1)
			start = now_ns();
		hop(pipes[0][0], pipes[1 % n][1]);
	}
	if (read(pipes[0][0], &token, sizeof(token)) != sizeof(token))
		fail("read");
	double each = (double)(now_ns() - start) / (rounds * n);

	while (wait(NULL) > 0)
		;
	printf("{\"processes\": %d, \"switches\": %lld, \"ns_per_hop\": %.1f, \"overhead_ns\": "
	       "%.1f, "
	       "\"ns_per_switch\": %.1f}\n",
	       n, (long long)(rounds * n), each, alone, each - alone);
	return 0;
}
