// wakebench [-m MESSENGERS] [-t WORKERS-EACH] [-c WORK-US] [-s SLEEP-US] [-r SECONDS]
//
// Measures wake-up latency and throughput in the manner of schbench, which Debian does not package.
// Messenger threads wake their workers by futex. A worker notes the time from the wake-up call
// until it ran, works for WORK-US, and sleeps again. Prints one line at the end: requests a second
// and percentiles of the latency in microseconds.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	LONGEST_US = 1 << 20
}; // latencies are counted by the microsecond up to here; longer ones count as this

struct worker {
	_Atomic uint32_t woken;
	_Atomic int64_t woken_at_ns;
	uint64_t requests;
	uint32_t *histogram;
};

static struct worker *workers;
static int workers_each = 4;
static long work_us = 500, sleep_us = 1000;
static atomic_bool ending;

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void *work(void *argument)
{
	struct worker *self = argument;
	while (!ending) {
		while (!atomic_exchange(&self->woken, 0) && !ending)
			futex(&self->woken, FUTEX_WAIT, 0);
		int64_t started = now_ns(), late_us = (started - self->woken_at_ns) / 1000;
		if (ending)
			break;
		self->histogram[late_us >= LONGEST_US ? LONGEST_US - 1 : late_us]++;
		while (now_ns() - started < work_us * 1000)
			;
		self->requests++;
	}
	return NULL;
}

static void *send(void *argument)
{
	struct worker *mine = argument;
	while (!ending) {
		for (int i = 0; i < workers_each; i++) {
			if (mine[i].woken) // the worker still works: it is not woken, so not measured
				continue;
			mine[i].woken_at_ns = now_ns();
			mine[i].woken = 1;
			futex(&mine[i].woken, FUTEX_WAKE, 1);
		}
		usleep(sleep_us);
	}
	return NULL;
}

static long percentile(const uint64_t *histogram, uint64_t total, double share)
{
	uint64_t seen = 0;
	for (long i = 0; i < LONGEST_US; i++) {
		seen += histogram[i];
		if (seen && seen >= share * total)
			return i;
	}
	return 0;
}

int main(int count, char **words)
{
	int messengers = 1, seconds = 10, option;
	while ((option = getopt(count, words, "m:t:c:s:r:")) != -1) {
		switch (option) {
		case 'm':
			messengers = atoi(optarg);
			break;
		case 't':
			workers_each = atoi(optarg);
			break;
		case 'c':
			work_us = atol(optarg);
			break;
		case 's':
			sleep_us = atol(optarg);
			break;
		case 'r':
			seconds = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	int total = messengers * workers_each;
	pthread_t threads[total + messengers];
	workers = calloc(total, sizeof *workers);
	for (int i = 0; i < total; i++) {
		workers[i].histogram = calloc(LONGEST_US, sizeof(uint32_t));
		pthread_create(&threads[i], NULL, work, &workers[i]);
	}
	for (int i = 0; i < messengers; i++)
		pthread_create(&threads[total + i], NULL, send, &workers[i * workers_each]);
	sleep(seconds);
	ending = true;
	for (int i = 0; i < total; i++) {
		workers[i].woken = 1;
		futex(&workers[i].woken, FUTEX_WAKE, 1);
	}
	for (int i = 0; i < total + messengers; i++)
		pthread_join(threads[i], NULL);

	static uint64_t histogram[LONGEST_US];
	uint64_t requests = 0, samples = 0;
	for (int i = 0; i < total; i++) {
		requests += workers[i].requests;
		for (long j = 0; j < LONGEST_US; j++) {
			histogram[j] += workers[i].histogram[j];
			samples += workers[i].histogram[j];
		}
	}
	printf("requests/s %.1f latency_us p50 %ld p90 %ld p99 %ld p99.9 %ld max %ld\n",
	       (double)requests / seconds, percentile(histogram, samples, 0.5),
	       percentile(histogram, samples, 0.9), percentile(histogram, samples, 0.99),
	       percentile(histogram, samples, 0.999), percentile(histogram, samples, 1.0));
	return 0;
}
