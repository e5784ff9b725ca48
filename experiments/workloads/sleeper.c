/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sleeper ON_US OFF_US SECONDS - uses ON_US of CPU time, then sleeps OFF_US, repeatedly, and prints
 * how much later than requested it woke up (Eclipse section 7.3: 11 ms, 100 ms; "reports the
 * average delay").
 *
 * The first second does not count: a new domain begins at the end of MTR-LS's list, once (mtr.h).
 *
 * Prints one line of JSON: how often it slept; the mean, the 99th percentile and the most of the
 * delays, in us; CPU time.
 */
#include "lib.h"

#define MOST 1000000
#define LEAD_S 1

static int64_t delays[MOST];

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int main(int count, char **words)
{
	if (count != 4) {
		fprintf(stderr, "usage: sleeper ON_US OFF_US SECONDS\n");
		return 2;
	}
	int64_t on = number("ON_US", words[1], 1, 10000000) * NS_PER_US;
	int64_t off = number("OFF_US", words[2], 1, 10000000) * NS_PER_US;
	int64_t begin = now_ns() + LEAD_S * NS_PER_S;
	int64_t end = begin + number("SECONDS", words[3], 1, 100000) * NS_PER_S;
	int64_t n = 0, sum = 0, before = 0;

	prctl(PR_SET_TIMERSLACK, 1); /* ns: the timer's own tolerance is no delay */
	while (n < MOST && now_ns() < end) {
		burn_ns(on);
		int64_t due = now_ns() + off;

		sleep_until_ns(due);
		if (due < begin) {
			before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
			continue;
		}
		delays[n] = now_ns() - due;
		sum += delays[n++];
	}
	if (!n)
		return 1;
	qsort(delays, n, sizeof(*delays), by_size);
	printf("{\"sleeps\": %lld, \"delay_us\": {\"mean\": %.1f, \"p99\": %.1f, \"max\": %.1f}, "
	       "\"cpu_s\": "
	       "%.3f}\n",
	       (long long)n, sum / 1e3 / n, delays[(n - 1) * 99 / 100] / 1e3, delays[n - 1] / 1e3,
	       (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before) / 1e9);
	return 0;
}
