/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reread FILE… - reads these files, one after the other, again and again, until SIGTERM. Then it
 * prints a line of JSON: how many MB it has read.
 */
#include <fcntl.h>

#include "lib.h"

#define CHUNK (64 << 10)

static volatile sig_atomic_t ending;

static void end(int signal)
{
	ending = 1;
}

static int64_t read_file(const char *path)
{
	static char chunk[CHUNK];
	int file = open(path, O_RDONLY);
	int64_t sum = 0;
	ssize_t got;

	if (file < 0)
		fail(path);
	while (!ending && (got = read(file, chunk, CHUNK)) > 0)
		sum += got;
	close(file);
	return sum;
}

int main(int count, char **words)
{
	int64_t bytes = 0;

	if (count < 2) {
		fprintf(stderr, "usage: reread FILE...\n");
		return 2;
	}
	signal(SIGTERM, end);
	for (int i = 1; !ending; i = i + 1 < count ? i + 1 : 1)
		bytes += read_file(words[i]);
	printf("{\"reread_mb\": %lld}\n", (long long)(bytes >> 20));
	return 0;
}
