/* SPDX-License-Identifier: GPL-2.0 */
/*
 * save FILE KB PERIOD_MS SECONDS [--no-sync] - an editor that saves (Redline section 8.3): each
 * period it writes KB to FILE anew and calls fsync(). A save that is late begins the next one at
 * once. With --no-sync it does not call fsync(): a program that writes a log.
 *
 * Ends with the first save that is done after SECONDS. Prints one line of JSON: how long each took.
 */
#include <fcntl.h>

#include "lib.h"

#define MOST_SAVES 100000
#define MOST_KB 1024

/* Returns how long the save took, ns. */
static int64_t save(const char *path, const char *text, size_t bytes, int sync)
{
	int64_t start = now_ns();
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (file < 0)
		fail(path);
	if (write(file, text, bytes) != (ssize_t)bytes)
		fail("write");
	if (sync && fsync(file))
		fail("fsync");
	close(file);
	return now_ns() - start;
}

int main(int count, char **words)
{
	static char text[MOST_KB << 10];
	static int64_t took[MOST_SAVES];

	int sync = !has_flag(count, words, "--no-sync");

	if (count != (sync ? 5 : 6)) {
		fprintf(stderr, "usage: save FILE KB PERIOD_MS SECONDS [--no-sync]\n");
		return 2;
	}
	size_t bytes = number("KB", words[2], 1, MOST_KB) << 10;
	int64_t period = number("PERIOD_MS", words[3], 1, 1000000) * NS_PER_MS;
	int64_t end = now_ns() + number("SECONDS", words[4], 1, 100000) * NS_PER_S;
	int64_t due = now_ns(), n = 0;

	memset(text, 'a', sizeof(text));
	while (now_ns() < end && n < MOST_SAVES) {
		sleep_until_ns(due);
		took[n++] = save(words[1], text, bytes, sync);
		due += period;
		if (due < now_ns())
			due = now_ns();
	}
	printf("{\"save_ms\": [");
	for (int64_t i = 0; i < n; i++)
		printf("%s%.3f", i ? ", " : "", (double)took[i] / NS_PER_MS);
	printf("]}\n");
	return 0;
}
