/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sampler INTERVAL_MS COUNT DOMAIN[=FILE]… - how much CPU time each domain (a folder of the cgroup
 * file system) has used: COUNT + 1 samples, one each INTERVAL_MS, as JSON.
 *
 * A sample is the sum of the CPU clocks of the processes that are in the domain (not in those below
 * it) when the sampler starts. Processes that are forked later are not counted, so all processes of
 * the load must exist by then. FILE: counters of inf; a sample also has their sum.
 *
 * The time of a task that runs on another CPU is charged at that CPU's next tick or switch, not
 * when its clock is read (thread_group_cputime(), kernel/sched/cputime.c). That is up to 4 ms at
 * 250 Hz, a tenth of what a small limit allows in a second. So samples are taken just after a tick;
 * ticks come at multiples of the tick's length on all CPUs (tick_setup_sched_timer()).
 *
 * Run it at real-time priority, so that it wakes in time; `late_us` is the longest delay.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib.h"

#define MOST_DOMAINS 512
#define MOST_CLOCKS 4096 /* processes in one domain */
#define MOST_SAMPLES 100000
#define LINE 64 /* bytes between inf's counters */
/*
 * By then the ticks of all CPUs are done (on timing-smp the CPUs take turns), and it is short
 * compared with what is measured.
 */
#define AFTER_TICK_NS (100 * NS_PER_US)

struct domain {
	char *name;
	clockid_t *clocks;
	int count, counters;
	const char *turns;
	int64_t last;
	int64_t *used, *done; /* of each sample */
};

static struct domain domains[MOST_DOMAINS];

static void find_processes(struct domain *d)
{
	char path[PATH_MAX];
	long pid;

	snprintf(path, sizeof(path), "%s/cgroup.procs", d->name);
	FILE *file = fopen(path, "r");

	if (!file)
		fail(path);
	while (fscanf(file, "%ld", &pid) == 1 && d->count < MOST_CLOCKS) {
		d->clocks = realloc(d->clocks, (d->count + 1) * sizeof(*d->clocks));
		if (!d->clocks || clock_getcpuclockid(pid, &d->clocks[d->count++]))
			fail("clock_getcpuclockid");
	}
	fclose(file);
}

static void map_counters(struct domain *d, const char *name)
{
	int file = open(name, O_RDONLY);
	struct stat about;

	if (file < 0 || fstat(file, &about))
		fail(name);
	d->counters = about.st_size / LINE;
	d->turns = mmap(NULL, about.st_size, PROT_READ, MAP_SHARED, file, 0);
	if (d->turns == MAP_FAILED)
		fail(name);
}

/*
 * A process that has ended has no clock, so its CPU time is unknown; the sample then repeats the
 * last sum.
 */
static void sample(struct domain *d, int64_t at)
{
	struct timespec t;
	int64_t sum = 0, turns = 0;

	for (int i = 0; i < d->count; i++) {
		if (clock_gettime(d->clocks[i], &t)) {
			sum = d->last;
			break;
		}
		sum += t.tv_sec * NS_PER_S + t.tv_nsec;
	}
	for (int i = 0; i < d->counters; i++)
		turns += *(volatile const int64_t *)(d->turns + i * LINE);
	d->used[at] = d->last = sum;
	d->done[at] = turns;
}

/* The length of the kernel's tick: the resolution of the clock that is set at each tick. */
static int64_t tick_ns(void)
{
	struct timespec t;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &t))
		fail("clock_getres");
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void print(const char *name, const int64_t *values, int64_t n, const char *end)
{
	printf("\"%s\": [", name);
	for (int64_t i = 0; i < n; i++)
		printf("%s%lld", i ? ", " : "", (long long)values[i]);
	printf("]%s", end);
}

int main(int count, char **words)
{
	if (count < 4 || count - 3 > MOST_DOMAINS) {
		fprintf(stderr, "usage: sampler INTERVAL_MS COUNT DOMAIN[=FILE]... (at most %d)\n",
			MOST_DOMAINS);
		return 2;
	}
	int64_t interval = number("INTERVAL_MS", words[1], 1, 100000) * 1000 * NS_PER_US;
	int64_t n = number("COUNT", words[2], 1, MOST_SAMPLES) + 1, late = 0;
	int64_t *at = calloc(n, sizeof(*at));
	int m = count - 3;

	for (int i = 0; i < m; i++) {
		struct domain *d = &domains[i];
		char *file = strchr(words[i + 3], '=');

		if (file)
			*file++ = 0;
		d->name = words[i + 3];
		find_processes(d);
		if (file)
			map_counters(d, file);
		d->used = calloc(n, sizeof(*d->used));
		d->done = calloc(n, sizeof(*d->done));
		if (!at || !d->used || !d->done)
			fail("calloc");
	}
	int64_t tick = tick_ns(), next = (now_ns() / tick + 1) * tick + AFTER_TICK_NS;

	for (int64_t k = 0; k < n; k++, next += interval) {
		sleep_until_ns(next);
		at[k] = now_ns();
		late = at[k] - next > late ? at[k] - next : late;
		for (int i = 0; i < m; i++)
			sample(&domains[i], k);
	}
	printf("{\"late_us\": %lld, ", (long long)(late / NS_PER_US));
	print("at_ns", at, n, ", \"domains\": {");
	for (int i = 0; i < m; i++) {
		printf("\"%s\": {\"processes\": %d, ", domains[i].name, domains[i].count);
		print("cpu_ns", domains[i].used, n, ", ");
		print("turns", domains[i].done, n, i + 1 < m ? "}, " : "}");
	}
	printf("}}\n");
	return 0;
}
