/* SPDX-License-Identifier: GPL-2.0 */
/*
 * many N PROGRAM - starts PROGRAM N times, prints how many starts succeeded, and stays until it is
 * killed; the programs end with it.
 */
#include "lib.h"

int main(int count, char **words)
{
	static int64_t started; /* static: vfork shares the stack */
	int64_t n = argument(count, words, 1, 1);

	if (count < 3)
		return 2;
	for (; started < n; started++) {
		pid_t pid = vfork();

		if (pid < 0)
			break;
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			execl(words[2], words[2], (char *)NULL);
			_exit(1);
		}
	}
	printf("started=%lld\n", (long long)started);
	fflush(stdout);
	pause_forever();
}
