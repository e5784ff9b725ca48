/* SPDX-License-Identifier: GPL-2.0 */
/*
 * card DEVICE THREADS FRAMES_PER_S WORK_US BUFFER SECONDS - a player with an MPEG decoder card
 * (Eclipse section 7.1): each of THREADS read-ahead threads reads 8 KiB of DEVICE past the page
 * cache, uses WORK_US of CPU time (to unpack them and send them to the card), and repeats this
 * while the card has room; its buffer holds BUFFER frames.
 *
 * The card is a thread at real-time priority, since hardware needs no scheduler. From the first
 * full buffer on it takes FRAMES_PER_S frames a second. It checks 200 times a second whether the
 * buffer holds what it needs (section 7.2: "sampled at a 200Hz rate"). If not, that is an
 * underflow, and a frame is shown longer: the movie does not catch up.
 *
 * Prints one line of JSON: samples, underflows (0: no missed deadline), underflows a second, CPU
 * time of the player.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include "lib.h"

#define CHUNK 8192
#define RATE 200 /* checks a second */
#define MOST_THREADS 64
#define UNIT RATE     /* parts of a frame, so that a check takes a whole number of them */
#define PATIENCE_S 10 /* the card starts then at the latest, with the buffer as it is */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER;
static int64_t level, on_the_way, capacity, work; /* level in units, the others in frames and ns */
static int64_t at_block, blocks;
static int file;

static void *reader(void *unused)
{
	char *buffer = aligned_alloc(4096, CHUNK);

	(void)unused;
	if (!buffer)
		fail("aligned_alloc");
	for (;;) {
		int64_t block;

		pthread_mutex_lock(&lock);
		while (level + (on_the_way + 1) * UNIT > capacity * UNIT)
			pthread_cond_wait(&room, &lock);
		on_the_way++;
		block = at_block++ % blocks;
		pthread_mutex_unlock(&lock);
		if (pread(file, buffer, CHUNK, block * CHUNK) != CHUNK)
			fail("pread");
		burn_ns(work);
		pthread_mutex_lock(&lock);
		on_the_way--;
		level += UNIT;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int count, char **words)
{
	struct sched_param first = { .sched_priority = 2 };
	pthread_attr_t small;
	pthread_t thread;

	if (count != 7) {
		fprintf(stderr, "usage: card DEVICE THREADS FRAMES_PER_S WORK_US BUFFER SECONDS\n");
		return 2;
	}
	int64_t threads = number("THREADS", words[2], 1, MOST_THREADS);
	int64_t frames = number("FRAMES_PER_S", words[3], 1, RATE);
	work = number("WORK_US", words[4], 1, 1000000) * NS_PER_US;
	capacity = number("BUFFER", words[5], 1, 1000);
	int64_t samples = number("SECONDS", words[6], 1, 100000) * RATE, underflows = 0;

	file = open(words[1], O_RDONLY | O_DIRECT);
	if (file < 0)
		fail(words[1]);
	blocks = lseek(file, 0, SEEK_END) / CHUNK;
	if (blocks < 1) {
		fprintf(stderr, "%s is shorter than %d bytes\n", words[1], CHUNK);
		return 2;
	}
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int64_t i = 0; i < threads; i++)
		if (pthread_create(&thread, &small, reader, NULL))
			fail("pthread_create");
	if (sched_setscheduler(0, SCHED_FIFO,
			       &first)) /* of this thread only: the readers are ordinary */
		fail("sched_setscheduler");
	int64_t next = now_ns(), limit = next + PATIENCE_S * NS_PER_S;

	for (; level < capacity * UNIT && next < limit;
	     next += NS_PER_S / RATE) /* fill the buffer first */
		sleep_until_ns(next);
	for (int64_t i = 0; i < samples; i++) {
		next += NS_PER_S / RATE;
		sleep_until_ns(next);
		pthread_mutex_lock(&lock);
		if (level >= frames)
			level -= frames;
		else
			underflows++;
		pthread_cond_broadcast(&room);
		pthread_mutex_unlock(&lock);
	}
	printf("{\"samples\": %lld, \"underflows\": %lld, \"per_second\": %.2f, \"cpu_s\": %.3f}\n",
	       (long long)samples, (long long)underflows, (double)underflows * RATE / samples,
	       clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9);
	fflush(stdout);
	_exit(0); /* ends the readers as well */
}
