/* SPDX-License-Identifier: GPL-2.0 */
/*
 * spin MS [NICE [SKIP_MS]] - loops for MS of wall time, then prints what it got of the CPU: ppm (of
 * one CPU), worst_second_ppm (the least of its whole seconds) and gap_ms (the longest time in which
 * it did not run). The first SKIP_MS do not count.
 */
#include "lib.h"
#include <sys/resource.h>

int main(int count, char **words)
{
	int64_t length = argument(count, words, 1, 1000) * NS_PER_MS,
		skip = argument(count, words, 3, 0) * NS_PER_MS, worst = 1000000;
	int64_t start, last, gap = 0, used, second, second_used;

	setpriority(PRIO_PROCESS, 0, (int)argument(count, words, 2, 0));
	start = last = now_ns();
	while (skip && now_ns() - start < skip)
		;
	start = last = second = now_ns();
	used = second_used = ran_ns();
	while (last - start < length) {
		int64_t t = now_ns();

		if (t - last > gap)
			gap = t - last;
		last = t;
		if (t - second >= 1000 * NS_PER_MS) {
			int64_t u = ran_ns(), ppm = (u - second_used) * 1000000 / (t - second);

			if (ppm < worst)
				worst = ppm;
			second = t;
			second_used = u;
		}
	}
	printf("ppm=%lld worst_second_ppm=%lld gap_ms=%lld\n",
	       (long long)((ran_ns() - used) * 1000000 / (last - start)), (long long)worst,
	       (long long)(gap / NS_PER_MS));
	return 0;
}
