/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hog N [--sessions] - N infinite loops, in the caller's session or each in one of its own. They end
 * with their parent, which only waits: kill it.
 */
#include "clock.h"

int main(int count, char **words)
{
	if (count < 2) {
		fprintf(stderr, "usage: hog N [--sessions]\n");
		return 2;
	}
	int64_t n = number("N", words[1], 1, 100000);
	int sessions = has_flag(count, words, "--sessions");
	pid_t parent = getpid();

	for (int64_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			be_child(parent, sessions);
			loop_forever();
		}
	}
	for (;;)
		pause();
}
