/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lock hold FILE KB - writes KB at once to the beginning of FILE, for ever. Each call holds the
 * file's lock until all is written, and is often preempted during that.
 *
 * lock ask FILE MS - writes one byte to FILE every 5 ms, for MS, and needs the same lock. Prints
 * the number of writes, and the sum and the longest of their times.
 */
#include "lib.h"
#include <fcntl.h>

int main(int count, char **words)
{
	int64_t amount = argument(count, words, 3, 1000), end = now_ns() + amount * NS_PER_MS,
		worst = 0, sum = 0, asked = 0;
	int fd = count < 4 ? -1 : open(words[2], O_RDWR | O_CREAT, 0600);
	char *buffer;

	if (fd < 0)
		return 2;
	if (!strcmp(words[1], "hold")) {
		buffer = calloc(amount, 1024);
		while (buffer && pwrite(fd, buffer, amount * 1024, 0) > 0)
			;
		return 1;
	}
	while (now_ns() < end) {
		int64_t from = now_ns(), wait;

		if (pwrite(fd, "", 1, 0) != 1)
			return 1;
		wait = now_ns() - from;
		sum += wait;
		worst = wait > worst ? wait : worst;
		asked++;
		sleep_until_ns(now_ns() + 5 * NS_PER_MS);
	}
	printf("asked=%lld sum_us=%lld worst_us=%lld\n", (long long)asked,
	       (long long)(sum / NS_PER_US), (long long)(worst / NS_PER_US));
	return 0;
}
