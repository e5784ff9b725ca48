/* SPDX-License-Identifier: GPL-2.0 */
/*
 * onoff ON_US OFF_US N [--sessions] - N processes that each use ON_US of CPU time, sleep OFF_US,
 * and so on. Eclipse section 5: "poses a challenge to most CPU schedulers, since it consumes CPU
 * with a duty cycle of about 60 %, and it sleeps frequently" (there 11 ms and 5 ms). They end with
 * their parent, which only waits.
 */
#include "lib.h"

int main(int count, char **words)
{
	if (count < 4) {
		fprintf(stderr, "usage: onoff ON_US OFF_US N [--sessions]\n");
		return 2;
	}
	int64_t on = number("ON_US", words[1], 1, 10000000) * NS_PER_US;
	int64_t off = number("OFF_US", words[2], 1, 10000000) * NS_PER_US;
	int64_t n = number("N", words[3], 1, 100000);
	int sessions = has_flag(count, words, "--sessions");
	pid_t parent = getpid();

	for (int64_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			be_child(parent, sessions);
			for (;;) {
				burn_ns(on);
				sleep_until_ns(now_ns() + off);
			}
		}
	}
	for (;;)
		pause();
}
