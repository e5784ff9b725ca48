/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hog N [--sessions] [--nice NICE] [--forks] - N infinite loops, in the caller's session or each in
 * a session (so an autogroup) of its own. With --forks, a further child forks short-lived children
 * all the time. They end with their parent, which only waits: kill it.
 */
#include "lib.h"
#include <sys/resource.h>

#define FORKED_BURNS_NS (200 * NS_PER_US)

static void fork_forever(void)
{
	for (;;) {
		if (!fork_or_die()) {
			burn_ns(FORKED_BURNS_NS);
			_exit(0);
		}
		wait(NULL);
	}
}

int main(int count, char **words)
{
	int forks = has_flag(count, words, "--forks"), nice_at = flag_at(count, words, "--nice");

	if (count < 2 || nice_at == count - 1) {
		fprintf(stderr, "usage: hog N [--sessions] [--nice NICE] [--forks]\n");
		return 2;
	}
	int64_t n = number("N", words[1], forks ? 0 : 1, 100000);
	int sessions = has_flag(count, words, "--sessions");
	pid_t parent = getpid();

	if (nice_at &&
	    setpriority(PRIO_PROCESS, 0, (int)number("NICE", words[nice_at + 1], -20, 19)))
		fail("setpriority");
	for (int64_t i = 0; i < n + forks; i++) {
		if (fork_or_die())
			continue;
		be_child(parent, sessions);
		if (i < n)
			loop_forever();
		fork_forever();
	}
	pause_forever();
}
