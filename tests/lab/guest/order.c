/* SPDX-License-Identifier: GPL-2.0 */
/*
 * order FIRST_NS C_US T_US END_NS - a job of C every T, the first at FIRST, until END; without C
 * one that never stops. FIRST and END are of CLOCK_MONOTONIC, so that all that run start at times
 * that are known.
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
