/* SPDX-License-Identifier: GPL-2.0 */
/*
 * bomb N SECONDS [--sessions] - the fork bomb of Redline section 8.1: "a task forks a fixed number
 * of child tasks, each of which executes an infinite loop, and then kills them after 30 seconds".
 *
 * The children never exec, so a specification of this program with flag I makes all of them
 * interactive (10:100 in the paper). To end the children the parent must get the CPU, for which it
 * may wait long under a stock scheduler. At its end it prints how long forking and killing took.
 */
#include "lib.h"
#include <sys/wait.h>

int main(int count, char **words)
{
	if (count < 3) {
		fprintf(stderr, "usage: bomb N SECONDS [--sessions]\n");
		return 2;
	}
	int64_t n = number("N", words[1], 1, 100000);
	int64_t seconds = number("SECONDS", words[2], 0, 86400);
	int sessions = has_flag(count, words, "--sessions");
	pid_t parent = getpid();
	pid_t *children = calloc(n, sizeof(*children));
	int64_t start = now_ns(), forked, ending, reaped;

	if (!children)
		fail("calloc");
	for (int64_t i = 0; i < n; i++) {
		children[i] = fork();
		if (children[i] < 0)
			fail("fork");
		if (children[i] == 0) {
			be_child(parent, sessions);
			loop_forever();
		}
	}
	forked = now_ns();
	sleep_until_ns(start + seconds * NS_PER_S);
	ending = now_ns();
	for (int64_t i = 0; i < n; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	reaped = now_ns();
	printf("{\"tasks\": %lld, \"forked_after_s\": %.3f, \"killing_began_after_s\": %.3f, "
	       "\"gone_after_s\": %.3f}\n",
	       (long long)n, (double)(forked - start) / NS_PER_S,
	       (double)(ending - start) / NS_PER_S, (double)(reaped - start) / NS_PER_S);
	return 0;
}
