/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lib.h - time, arguments and processes, for the small programs that run in guests: those here, of
 * tests/lab/guest and of experiments/workloads. All times are nanoseconds in int64_t.
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

#define NS_PER_S 1000000000LL
#define NS_PER_MS 1000000LL
#define NS_PER_US 1000LL

/* --- time ------------------------------------------------------------------------------------ */

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static inline int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* The CPU time of the calling thread. */
static inline int64_t ran_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline void sleep_until_ns(int64_t when)
{
	struct timespec t = { when / NS_PER_S, when % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/*
 * Uses that much CPU time of the calling thread; time in which other tasks run does not count.
 * Reading this clock is a system call: the inner loop keeps most of the time in user mode.
 */
static inline void burn_ns(int64_t amount)
{
	int64_t end = ran_ns() + amount;

	while (ran_ns() < end)
		for (volatile int i = 0; i < 200; i++)
			;
}

static inline void loop_forever(void)
{
	for (volatile uint64_t x = 0;; x++)
		;
}

static inline void pause_forever(void)
{
	for (;;)
		pause();
}

/* --- processes ------------------------------------------------------------------------------- */

static inline void fail(const char *what)
{
	perror(what);
	exit(1);
}

/*
 * In a forked child: end with the parent; with @own_session, compete as a session (an autogroup).
 */
static inline void be_child(pid_t parent, int own_session)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* the parent ended before the prctl */
	if (own_session)
		setsid();
}

static inline pid_t fork_or_die(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	return pid;
}

/* A child that ends with its parent. */
static inline pid_t fork_bound(void)
{
	pid_t parent = getpid(), pid = fork_or_die();

	if (!pid)
		be_child(parent, 0);
	return pid;
}

/* --- arguments ------------------------------------------------------------------------------- */

/* A whole number between the limits; otherwise the program ends with a message and status 2. */
static inline int64_t number(const char *name, const char *text, int64_t least, int64_t most)
{
	char *end;
	long long value = strtoll(text, &end, 10);

	if (*end || end == text || value < least || value > most) {
		fprintf(stderr, "%s is '%s': write a whole number between %lld and %lld\n", name,
			text, (long long)least, (long long)most);
		exit(2);
	}
	return value;
}

/* Argument @i as a number, or @otherwise if there are fewer arguments. */
static inline int64_t argument(int count, char **words, int i, int64_t otherwise)
{
	return i < count ? atoll(words[i]) : otherwise;
}

/* The position of @flag among the arguments, 0 if it is not there. */
static inline int flag_at(int count, char **words, const char *flag)
{
	for (int i = 1; i < count; i++)
		if (!strcmp(words[i], flag))
			return i;
	return 0;
}

static inline int has_flag(int count, char **words, const char *flag)
{
	return flag_at(count, words, flag) != 0;
}

#endif /* LIB_H */
