/* SPDX-License-Identifier: GPL-2.0 */
/*
 * turns SECONDS - two threads on one CPU hand a turn to each other. The one whose turn it is not
 * waits with sched_yield(). Prints the hand-offs in a second.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_int turn, ended;
static int64_t handed;

static void *player(void *number)
{
	int mine = number != NULL;

	while (!ended) {
		if (turn != mine) {
			sched_yield();
			continue;
		}
		handed++; /* only by the one whose turn it is */
		turn = !mine;
	}
	return NULL;
}

int main(int count, char **words)
{
	int64_t seconds = argument(count, words, 1, 2);
	pthread_t first, second;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity");
	if (pthread_create(&first, NULL, player, NULL) ||
	    pthread_create(&second, NULL, player, &turn))
		fail("pthread_create");
	sleep_until_ns(now_ns() + seconds * 1000 * NS_PER_MS);
	ended = 1;
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	printf("handed=%lld\n", (long long)(handed / seconds));
	return 0;
}
