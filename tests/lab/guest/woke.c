/* SPDX-License-Identifier: GPL-2.0 */
/*
 * woke FROM TRIES - sleeps on CPU FROM, then may run anywhere and wakes up; that TRIES times.
 * Prints the CPUs on which it woke up. It looks itself, so that no other program runs meanwhile.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <sched.h>

static void may_run_on(const cpu_set_t *cpus)
{
	if (sched_setaffinity(0, sizeof(*cpus), cpus))
		fail("sched_setaffinity");
}

int main(int count, char **words)
{
	long tries = argument(count, words, 2, 1);
	cpu_set_t all, from;

	CPU_ZERO(&from);
	CPU_SET(argument(count, words, 1, 0), &from);
	if (sched_getaffinity(0, sizeof(all), &all))
		fail("sched_getaffinity");
	for (long i = 0; i < tries; i++) {
		may_run_on(&from);
		sleep_until_ns(now_ns() + NS_PER_MS);
		may_run_on(&all);
		/* not always at the same distance from a tick */
		sleep_until_ns(now_ns() + 3 * NS_PER_MS + i * 370 * NS_PER_US % NS_PER_MS);
		printf("%d ", sched_getcpu());
	}
	return 0;
}
