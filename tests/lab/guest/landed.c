/* SPDX-License-Identifier: GPL-2.0 */
/*
 * landed PART - waits until the path of its cgroup ends in PART, checks it every 5 ms, and prints
 * how long after its start that was: landed_us. Gives up after 5 s. Each check costs 0.1 ms of the
 * reservation of 5 ms. A program that has used it up looks again in its next period only, 100 ms
 * later.
 */
#include "lib.h"

static int is_in(const char *part)
{
	char path[4096] = "";
	FILE *f = fopen("/proc/self/cgroup", "r");
	size_t got;

	if (!f)
		return 0;
	got = fread(path, 1, sizeof(path) - 1, f);
	fclose(f);
	path[got] = '\0';
	path[strcspn(path, "\n")] = '\0';
	return strlen(path) >= strlen(part) && !strcmp(path + strlen(path) - strlen(part), part);
}

int main(int count, char **words)
{
	int64_t start = now_ns();

	while (count > 1 && !is_in(words[1]) && now_ns() - start < 5000 * NS_PER_MS)
		sleep_until_ns(now_ns() + 5 * NS_PER_MS);
	printf("landed_us=%lld\n", (long long)((now_ns() - start) / NS_PER_US));
	return 0;
}
