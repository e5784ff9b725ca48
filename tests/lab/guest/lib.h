/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lib.h - clocks, burning CPU time, and arguments for the small programs of the lab tests. Times are ns.
 */
#ifndef LIB_H
#define LIB_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define US 1000LL

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline int64_t now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* CPU time of this thread. */
static inline int64_t ran(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline void burn(int64_t ns)
{
	int64_t end = ran() + ns;

	while (ran() < end)
		;
}

static inline void sleep_until(int64_t when)
{
	struct timespec t = { when / 1000000000LL, when % 1000000000LL };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static inline void pause_for_ever(void)
{
	for (;;)
		pause();
}

/* Argument @i as a number, or @otherwise. */
static inline int64_t number(int count, char **words, int i, int64_t otherwise)
{
	return i < count ? atoll(words[i]) : otherwise;
}

static inline pid_t fork_or_die(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	return pid;
}

/* A child that ends with its parent. */
static inline pid_t fork_bound(void)
{
	pid_t parent = getpid(), pid = fork_or_die();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent) /* it ended before */
			_exit(1);
	}
	return pid;
}

#endif /* LIB_H */
