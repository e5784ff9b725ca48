/* SPDX-License-Identifier: GPL-2.0 */
/*
 * minor K C_US T_US N [idle] - a main thread with a job of C of CPU time each T, for N periods, and
 * K threads of nice 19, or of SCHED_IDLE, that never sleep. Prints how many jobs were not done when
 * the next one was due, the longest response time, us, and what the threads used, ppm of a CPU.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

static int idle;

static void *loop(void *unused)
{
	struct sched_param none = { 0 };

	if (idle ? sched_setscheduler(0, SCHED_IDLE, &none)
		 : setpriority(PRIO_PROCESS, (id_t)gettid(), 19))
		fail("the priority of a thread");
	for (;;)
		;
	return NULL;
}

int main(int count, char **words)
{
	int64_t threads = argument(count, words, 1, 2), c = argument(count, words, 2, 3000),
		t = argument(count, words, 3, 16000) * NS_PER_US,
		jobs = argument(count, words, 4, 500), missed = 0, longest = 0;
	pthread_t thread;

	idle = has_flag(count, words, "idle");
	for (int64_t i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, loop, NULL))
			fail("pthread_create");
	int64_t start = now_ns(), due = start + t;

	for (int64_t i = 0; i < jobs; i++, due += t) {
		sleep_until_ns(due);
		burn_ns(c * NS_PER_US);
		int64_t took = now_ns() - due;

		if (took > longest)
			longest = took;
		missed += took > t;
		for (; i + 1 < jobs && due + t < now_ns(); i++, missed++)
			due += t;
	}
	int64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - ran_ns();

	printf("missed=%lld response_us=%lld minor_ppm=%lld\n", (long long)missed,
	       (long long)(longest / NS_PER_US), (long long)(used * 1000000 / (now_ns() - start)));
	fflush(stdout);
	_exit(0);
}
