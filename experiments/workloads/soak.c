/* SPDX-License-Identifier: GPL-2.0 */
/*
 * soak FILE - uses all CPU time that no other task uses (policy SCHED_IDLE) and counts it, until it
 * is killed.
 *
 * It counts turns of a loop. In virtual time (`timing`) a turn always takes the same time. So the
 * time that is not counted here was used by everything else: programs, system calls, interrupts,
 * timers, the scheduler. The kernel's own accounts sample at ticks or leave out interrupts; this
 * count leaves nothing out.
 *
 * It writes its own record, since a program that read the count would be counted as well. FILE
 * holds numbers of 8 bytes: the ns that 1,000,000 undisturbed turns take; the number of stamps; and
 * for each second a stamp: the real-time clock in ns, and the turns so far.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include "lib.h"

#define CHUNK 1000          /* turns between two updates of the count */
#define PROBE (100 * CHUNK) /* 1 ms: shorter than the time between two ticks */
#define PROBES 200

#define MOST_STAMPS 3600

struct stamp {
	int64_t clock, turns;
};

struct account {
	int64_t ns_of_a_million;
	volatile int64_t count;
	struct stamp stamps[MOST_STAMPS];
	volatile int64_t turns;
};

static void turn(struct account *account, int64_t turns)
{
	for (; turns > 0; turns -= CHUNK) {
		for (volatile int i = 0; i < CHUNK; i++)
			;
		account->turns += CHUNK;
	}
}

int main(int count, char **words)
{
	struct sched_param none = { 0 };
	int64_t least = INT64_MAX;

	if (count != 2) {
		fprintf(stderr, "usage: soak FILE\n");
		return 2;
	}
	int file = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
	struct account *account = MAP_FAILED;

	if (file >= 0 && !ftruncate(file, sizeof(*account)))
		account = mmap(NULL, sizeof(*account), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (account == MAP_FAILED)
		fail(words[1]);
	for (int i = 0; i < PROBES; i++) {
		int64_t from = now_ns();

		turn(account, PROBE);
		int64_t took = now_ns() - from;

		least = took < least ? took : least;
	}
	account->ns_of_a_million = least * (1000000 / PROBE);
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		fail("sched_setscheduler");
	for (int64_t next = clock_ns(CLOCK_REALTIME);;) {
		turn(account, PROBE);

		int64_t now = clock_ns(CLOCK_REALTIME);

		if (now < next || account->count == MOST_STAMPS)
			continue;
		account->stamps[account->count] = (struct stamp){ now, account->turns };
		account->count++;
		next = now + NS_PER_S;
	}
}
