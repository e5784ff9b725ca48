/* SPDX-License-Identifier: GPL-2.0 */
/*
 * order FIRST_NS C_US T_US END_NS - a periodic task: a job of C every T, the first at FIRST, until
 * END. If C is 0, the first job runs until the program is killed. FIRST and END are times of
 * CLOCK_MONOTONIC, so that several programs start at known times.
 */
#include "lib.h"

int main(int count, char **words)
{
	int64_t next = argument(count, words, 1, 0), c = argument(count, words, 2, 0) * NS_PER_US;
	int64_t t = argument(count, words, 3, 0) * NS_PER_US, end = argument(count, words, 4, 0);

	for (; next < end; next += t) {
		sleep_until_ns(next);
		burn_ns(c ? c : end); /* without C: for longer than it will live */
	}
	return 0;
}
