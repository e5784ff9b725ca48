/* SPDX-License-Identifier: GPL-2.0 */
/*
 * storm MS N SEED - N processes that use more CPU time than they reserved, for MS, and that do at
 * random what could make a scheduler lose a task: fork, exec, end, change policy, nice value and
 * affinity, start threads, sleep, yield. Returns when all of them have ended.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

static int64_t end;

static void *burner(void *amount)
{
	burn_ns((int64_t)(intptr_t)amount);
	return NULL;
}

static void set_policy(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	sched_setscheduler(0, policy, &param);
}

static void act(char **words)
{
	cpu_set_t cpus;
	pthread_t thread;

	switch (rand() % 10) {
	case 0:
		if (!fork_or_die()) {
			burn_ns(rand() % 3000 * NS_PER_US);
			_exit(0);
		}
		break;
	case 1:
		if (!fork_or_die()) {
			execl(words[0], words[0], "5", "0", "1", (char *)NULL);
			_exit(1);
		}
		break;
	case 2:
		set_policy(SCHED_FIFO, 1 + rand() % 3);
		burn_ns(rand() % 2000 * NS_PER_US);
		set_policy(rand() % 2 ? SCHED_OTHER : SCHED_BATCH, 0);
		break;
	case 3:
		setpriority(PRIO_PROCESS, 0, rand() % 40 - 20);
		break;
	case 4:
		CPU_ZERO(&cpus);
		CPU_SET(rand() % 2, &cpus);
		if (rand() % 2) {
			CPU_SET(0, &cpus);
			CPU_SET(1, &cpus);
		}
		/* Fails if no CPU of the set exists. */
		sched_setaffinity(0, sizeof(cpus), &cpus);
		break;
	case 5:
		if (!pthread_create(&thread, NULL, burner,
				    (void *)(intptr_t)(rand() % 20 * NS_PER_MS)))
			pthread_detach(thread);
		break;
	case 6:
		usleep(rand() % 20000);
		break;
	case 7:
		sched_yield();
		break;
	case 8:
		if (rand() % 4 == 0 && fork_or_die())
			_exit(0); /* the child continues */
		break;
	case 9:
		set_policy(SCHED_IDLE, 0);
		burn_ns(rand() % 500 * NS_PER_US);
		set_policy(SCHED_OTHER, 0);
		break;
	}
}

int main(int count, char **words)
{
	int64_t n = argument(count, words, 2, 1), seed = argument(count, words, 3, 1);
	int left;

	end = now_ns() + argument(count, words, 1, 1000) * NS_PER_MS;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int64_t i = 0; i < n; i++) {
		if (fork_or_die())
			continue;
		srand(seed * 1000 + i);
		while (now_ns() < end) {
			burn_ns(rand() % 9000 * NS_PER_US);
			act(words);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		}
		_exit(0);
	}
	for (left = 0; wait(NULL) > 0;)
		left++;
	if (n)
		printf("ended=%d\n", left);
	return 0;
}
