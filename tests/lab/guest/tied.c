/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tied MS - a thread on each of CPU 0 and CPU 1, each tied to its CPU, works for 1 ms in every
 * 20 ms, for MS.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <pthread.h>
#include <sched.h>

static int64_t end;

static void *work(void *cpu)
{
	cpu_set_t one;
	int64_t next = now_ns();

	CPU_ZERO(&one);
	CPU_SET((intptr_t)cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity");
	while (next < end) {
		burn_ns(NS_PER_MS);
		next += 20 * NS_PER_MS;
		sleep_until_ns(next);
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t other;

	end = now_ns() + argument(count, words, 1, 1000) * NS_PER_MS;
	if (pthread_create(&other, NULL, work, (void *)1))
		fail("pthread_create");
	work((void *)0);
	pthread_join(other, NULL);
	return 0;
}
