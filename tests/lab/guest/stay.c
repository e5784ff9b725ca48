/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stay [BURN_MS] - uses BURN_MS of CPU time, then sleeps until it is killed. From SIGUSR1 on it
 * loops. At SIGUSR2 it pins itself to the other one of CPUs 0 and 1. It is the plain interactive
 * program of the tests: copies of it under different names get different specs.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <sched.h>

static void loop(int signal)
{
	for (;;)
		;
}

static void cross(int signal)
{
	cpu_set_t other;

	CPU_ZERO(&other);
	CPU_SET(!sched_getcpu(), &other);
	sched_setaffinity(0, sizeof(other), &other);
}

int main(int count, char **words)
{
	signal(SIGUSR1, loop);
	signal(SIGUSR2, cross);
	burn_ns(argument(count, words, 1, 0) * NS_PER_MS);
	pause_forever();
}
