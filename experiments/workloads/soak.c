/* SPDX-License-Identifier: GPL-2.0 */
/*
 * soak FILE - takes all CPU time that nobody else wants (policy SCHED_IDLE) and counts it, until it is killed.
 *
 * Counts turns of a loop. On the machine whose time is instructions a turn always takes the same time, so what passes
 * and is not counted here went to everything else: programs, system calls, interrupts, timers, the scheduler. Unlike
 * the kernel's own accounts, which sample at ticks or leave out interrupts, this leaves nothing out.
 *
 * FILE holds two numbers of 8 bytes: the turns so far, and what 1,000,000 of them take, in ns, undisturbed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include "clock.h"

#define CHUNK 1000          /* turns between two updates of the count */
#define PROBE (100 * CHUNK) /* 1 ms: shorter than what is between two ticks */
#define PROBES 200

struct account {
	volatile int64_t turns, ns_of_a_million;
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
	for (;;)
		turn(account, PROBE);
}
