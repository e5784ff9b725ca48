/* SPDX-License-Identifier: GPL-2.0 */
/*
 * periodic C_US T_US N [over | brief] - a periodic task: each T a job that uses
 * C of CPU time, for N periods.
 *
 * The wake-up latency of a job is the time from its release to its first instruction; its response
 * time ends with its last one. It misses its deadline, the next release, if the response time is
 * above T. A release that passes while an earlier job still runs is skipped and counts as missed,
 * so the run always lasts about N * T. With "over" the task never sleeps; then its share of the CPU
 * is what matters. Prints one line of JSON, times in microseconds; with "brief" only misses, the
 * longest wake-up latency and response time, and the most misses of one second, as `missed=N
 * wake_us=N response_us=N worst_second=N`.
 */
#include "lib.h"

#define BUCKETS 32

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Percentiles and a histogram whose bucket k counts values below 2^k us (and not below 2^(k-1)). */
static void print_distribution(const char *name, int64_t *values, int64_t n)
{
	int64_t buckets[BUCKETS] = { 0 }, sum = 0;
	int last = 0;

	for (int64_t i = 0; i < n; i++) {
		int k = 0;

		while (k < BUCKETS - 1 && values[i] >= NS_PER_US << k)
			k++;
		buckets[k]++;
		last = k > last ? k : last;
		sum += values[i];
	}
	qsort(values, n, sizeof(*values), compare);
	printf(", \"%s_us\": {\"mean\": %.1f, \"p50\": %.1f, \"p99\": %.1f, \"max\": %.1f, "
	       "\"below_us\": {",
	       name, sum / 1e3 / n, values[n / 2] / 1e3, values[n * 99 / 100] / 1e3,
	       values[n - 1] / 1e3);
	for (int k = 0; k <= last; k++)
		printf("%s\"%lld\": %lld", k ? ", " : "", 1LL << k, (long long)buckets[k]);
	printf("}}");
}

static void overrun(int64_t length)
{
	int64_t start = now_ns(), cpu = ran_ns();

	while (now_ns() - start < length)
		burn_ns(NS_PER_US * 100);
	int64_t ran = ran_ns() - cpu, passed = now_ns() - start;

	printf("{\"mode\": \"over\", \"cpu_s\": %.6f, \"wall_s\": %.6f, \"share_percent\": %.3f}\n",
	       ran / 1e9, passed / 1e9, 100.0 * ran / passed);
}

static void print_brief(const int64_t *latency, const int64_t *response, int64_t jobs,
			int64_t missed, int64_t worst_second)
{
	int64_t wake = 0, took = 0;

	for (int64_t i = 0; i < jobs; i++) {
		wake = latency[i] > wake ? latency[i] : wake;
		took = response[i] > took ? response[i] : took;
	}
	printf("missed=%lld wake_us=%lld response_us=%lld worst_second=%lld\n", (long long)missed,
	       (long long)(wake / NS_PER_US), (long long)(took / NS_PER_US),
	       (long long)worst_second);
}

int main(int count, char **words)
{
	if (count < 4) {
		fprintf(stderr, "usage: periodic C_US T_US N [over | brief]\n");
		return 2;
	}
	int64_t period = number("T_US", words[2], 1, 100000000) * NS_PER_US;
	int64_t runtime = number("C_US", words[1], 0, period / NS_PER_US) * NS_PER_US;
	int64_t n = number("N", words[3], 1, 10000000);

	/*
	 * The kernel lets timers of ordinary tasks slip by 50 us and those of real-time and
	 * deadline tasks not at all. Asking for no slack lets the schedulers be compared, not the
	 * timers.
	 */
	prctl(PR_SET_TIMERSLACK, 1);
	if (has_flag(count, words, "over")) {
		overrun(n * period);
		return 0;
	}

	int64_t *latency = malloc(n * sizeof(*latency)), *response = malloc(n * sizeof(*response));
	int64_t jobs = 0, late = 0, skipped = 0, this_second = 0, in_second = 0, worst_second = 0;

	if (!latency || !response)
		fail("malloc");
	memset(latency, 0, n * sizeof(*latency)); /* no page faults in the jobs */
	memset(response, 0, n * sizeof(*response));

	int64_t release = now_ns() + period, last = release + (n - 1) * period;

	while (release <= last) {
		sleep_until_ns(release);
		latency[jobs] = now_ns() - release;
		burn_ns(runtime);
		int64_t took = now_ns() - release;

		response[jobs++] = took;
		late += took > period;
		int64_t passed = took / period;
		int64_t second = release / (1000 * NS_PER_MS);

		if (release + passed * period > last)
			passed = (last - release) / period;
		skipped += passed;
		in_second = (second == this_second ? in_second : 0) + (took > period) + passed;
		this_second = second;
		worst_second = in_second > worst_second ? in_second : worst_second;
		release += (passed + 1) * period;
	}
	if (has_flag(count, words, "brief")) {
		print_brief(latency, response, jobs, late + skipped, worst_second);
		return 0;
	}
	printf("{\"mode\": \"periodic\", \"runtime_us\": %lld, \"period_us\": %lld, \"periods\": "
	       "%lld, \"jobs\": %lld, \"late\": %lld, \"skipped\": %lld, \"misses\": %lld",
	       (long long)(runtime / NS_PER_US), (long long)(period / NS_PER_US), (long long)n,
	       (long long)jobs, (long long)late, (long long)skipped, (long long)(late + skipped));
	print_distribution("wakeup", latency, jobs);
	print_distribution("response", response, jobs);
	printf("}\n");
	return 0;
}
