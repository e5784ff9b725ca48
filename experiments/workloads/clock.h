/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clock.h - time, numbers and the few process idioms that the workloads share.
 *
 * All times are nanoseconds in int64_t.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define NS_PER_US 1000LL

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

static inline void sleep_until_ns(int64_t when)
{
	struct timespec t = { when / NS_PER_S, when % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* Use that much CPU time of the calling thread; time in which others run does not count. */
static inline void burn_ns(int64_t amount)
{
	int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + amount;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 200; i++)
			;
}

static inline void loop_forever(void)
{
	for (volatile uint64_t x = 0;; x++)
		;
}

/* In a forked child: end with the parent; with own_session, compete as a session (an autogroup) of one's own. */
static inline void be_child(pid_t parent, int own_session)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* it ended before we asked */
	if (own_session)
		setsid();
}

static inline void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* A whole number between the limits, or the end of the program with a word about it. */
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

static inline int has_flag(int count, char **words, const char *flag)
{
	for (int i = 1; i < count; i++)
		if (!strcmp(words[i], flag))
			return 1;
	return 0;
}

#endif /* CLOCK_H */
