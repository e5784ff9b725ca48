/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pingpong N - two processes pass a byte through two pipes; N switches between them in all. Prints
 * the time per switch, pipe read and write included. Redline section 8.1 measures switches
 * likewise: exactly one of the two tasks is runnable at any moment.
 */
#include "lib.h"
#include <sys/wait.h>

static void pass(int in, int out)
{
	char token;

	if (read(in, &token, 1) != 1 || write(out, &token, 1) != 1)
		fail("pipe");
}

int main(int count, char **words)
{
	if (count < 2) {
		fprintf(stderr, "usage: pingpong N\n");
		return 2;
	}
	pid_t parent = getpid();
	int64_t rounds = number("N", words[1], 2, 1000000000) / 2, warm = 100;
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		fail("pipe");
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (child == 0) {
		be_child(parent, 0);
		for (int64_t i = 0; i < rounds + warm; i++)
			pass(there[0], back[1]);
		return 0;
	}
	int64_t start = 0;

	if (write(there[1], "x", 1) != 1)
		fail("pipe");
	for (int64_t i = 0; i < rounds + warm - 1; i++) {
		if (i == warm)
			start = now_ns();
		pass(back[0], there[1]);
	}
	int64_t took = now_ns() - start, switches = 2 * (rounds - 1);

	waitpid(child, NULL, 0);
	printf("{\"switches\": %lld, \"seconds\": %.6f, \"ns_per_switch\": %.1f}\n",
	       (long long)switches, took / 1e9, (double)took / switches);
	return 0;
}
