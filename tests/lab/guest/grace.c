/* SPDX-License-Identifier: GPL-2.0 */
/*
 * grace - RCU grace periods under load.
 *
 *   grace read     is an RCU reader nearly all the time, for ever: it asks for a clock whose value
 *                  the kernel reads under rcu_read_lock()
 *   grace wait MS  waits for one grace period after the other for so long, and prints how many
 *                  there were and the longest: periods, longest_ms
 */
#include "lib.h"
#include <linux/membarrier.h>
#include <sys/syscall.h>

int main(int count, char **words)
{
	int64_t start = now_ns(), last = start, longest = 0, periods = 0, length;

	if (count == 2 && !strcmp(words[1], "read")) {
		clockid_t clock;
		struct timespec t;

		/* Of another process: the C library reads its own without this function. */
		if (clock_getcpuclockid(getppid(), &clock))
			return 1;
		while (!clock_gettime(clock, &t))
			;
		return 1;
	}
	if (count != 3 || strcmp(words[1], "wait"))
		return 1;
	length = number("MS", words[2], 1, 1000000) * NS_PER_MS;
	while (last - start < length) {
		int64_t t;

		/* the kernel carries it out by synchronize_rcu() */
		if (syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
			return 1;
		t = now_ns();
		if (t - last > longest)
			longest = t - last;
		last = t;
		periods++;
	}
	printf("periods=%lld longest_ms=%lld\n", (long long)periods,
	       (long long)(longest / NS_PER_MS));
	return 0;
}
