/* SPDX-License-Identifier: GPL-2.0 */
/*
 * family MODE ... - a parent process with children or threads. It stays until it is killed; its
 * children end with it.
 *   late MS          forks a child that uses MS of CPU time and executes nothing
 *   brood MS N       forks N such children at once
 *   exec PROGRAM...  forks a child that executes PROGRAM at once
 *   zombie MS        forks a child that uses MS and ends; the parent does not wait for it
 *   threads N        starts N threads that sleep
 *   reexec PROGRAM.. executes PROGRAM itself, from a second thread
 */
#include "lib.h"
#include <pthread.h>

static char **program;

static void *sleeper(void *unused)
{
	pause_forever();
	return unused;
}

static void *reexec(void *unused)
{
	execv(program[0], program);
	return unused;
}

int main(int count, char **words)
{
	const char *mode = count > 1 ? words[1] : "";
	int64_t amount = argument(count, words, 2, 0);
	pthread_t thread;

	program = words + 2;
	if (!strcmp(mode, "threads")) {
		for (int64_t i = 0; i < amount; i++)
			pthread_create(&thread, NULL, sleeper, NULL);
	} else if (!strcmp(mode, "reexec")) {
		pthread_create(&thread, NULL, reexec, NULL);
	} else if (!strcmp(mode, "brood")) {
		for (int64_t i = argument(count, words, 3, 1); i > 0; i--) {
			if (!fork_bound()) {
				burn_ns(amount * NS_PER_MS);
				pause_forever();
			}
		}
	} else if (!fork_bound()) {
		if (!strcmp(mode, "exec")) {
			execv(program[0], program);
			perror(program[0]);
			_exit(1);
		}
		burn_ns(amount * NS_PER_MS);
		if (!strcmp(mode, "zombie"))
			_exit(0);
		pause_forever();
	}
	pause_forever();
}
