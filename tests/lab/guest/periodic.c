/* SPDX-License-Identifier: GPL-2.0 */
/*
 * periodic C_US T_US N - N jobs of C, one every T. Prints missed (response time above T, or release passed
 * over), wake_us (worst time from release to first instruction) and response_us (worst).
 */
#include "lib.h"

int main(int count, char **words)
{
	int64_t c = number(count, words, 1, 1000) * US, t = number(count, words, 2, 10000) * US,
		next = now() + t;
	int64_t n = number(count, words, 3, 10), missed = 0, wake = 0, response = 0;

	for (int64_t i = 0; i < n; i++, next += t) {
		int64_t late, took;

		sleep_until(next);
		late = now() - next;
		burn(c);
		took = now() - next;
		wake = late > wake ? late : wake;
		response = took > response ? took : response;
		missed += took > t;
		for (; i < n && next + t < now(); i++, missed++)
			next += t;
	}
	printf("missed=%lld wake_us=%lld response_us=%lld\n", (long long)missed,
	       (long long)(wake / US), (long long)(response / US));
	return 0;
}
