/* SPDX-License-Identifier: GPL-2.0 */
/*
 * order FIRST_NS C_US T_US END_NS - a job of C every T, the first at FIRST, until END; without C one that
 * never stops. FIRST and END are of CLOCK_MONOTONIC, so that all that run start at times that are known.
 */
#include "lib.h"

int main(int count, char **words)
{
	int64_t next = number(count, words, 1, 0), c = number(count, words, 2, 0) * US;
	int64_t t = number(count, words, 3, 0) * US, end = number(count, words, 4, 0);

	for (; next < end; next += t) {
		sleep_until(next);
		burn(c ? c : end); /* without C: for longer than it will live */
	}
	return 0;
}
