/* SPDX-License-Identifier: GPL-2.0 */
/*
 * save DIRECTORY SECONDS KB [every MS] - saves a file as an editor does, again and again: creates
 * it, writes KB, fsync(), closes it, unlinks it. Each is a change of the file system's journal.
 *
 * every MS: it begins a save each MS; if one takes longer, the next begins at once.
 *
 * Prints one line of JSON: saves, the longest fsync(), the sum of all, us. Ends after SECONDS.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "lib.h"

#define BLOCK 4096

int main(int count, char **words)
{
	char path[4096];
	static char block[BLOCK];
	int64_t saves = 0, longest = 0, sum = 0;

	if (count < 4) {
		fprintf(stderr, "usage: save DIRECTORY SECONDS KB [every MS]\n");
		return 2;
	}
	int64_t due = now_ns(), end = due + number("SECONDS", words[2], 1, 3600) * NS_PER_S;
	int64_t blocks = number("KB", words[3], 4, 1 << 20) * 1024 / BLOCK;
	int at = flag_at(count, words, "every");
	int64_t every = at && at + 1 < count ? number("MS", words[at + 1], 1, 100000) : 0;

	snprintf(path, sizeof(path), "%s/save.%d", words[1], getpid());
	for (int64_t now = due; now < end; now = now_ns()) {
		if (now < due)
			sleep_until_ns(due);
		due = now_ns() + every * NS_PER_MS;
		int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

		if (file < 0)
			fail(path);
		for (int64_t i = 0; i < blocks; i++)
			if (write(file, block, BLOCK) != BLOCK)
				fail("write");
		int64_t began = now_ns();

		if (fsync(file))
			fail("fsync");
		int64_t took = now_ns() - began;

		close(file);
		unlink(path);
		saves++;
		sum += took;
		if (took > longest)
			longest = took;
	}
	printf("{\"saves\": %lld, \"longest_us\": %lld, \"sum_us\": %lld}\n", (long long)saves,
	       (long long)(longest / NS_PER_US), (long long)(sum / NS_PER_US));
	return 0;
}
