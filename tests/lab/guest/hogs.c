/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hogs N [NICE [FORKS]] - N endless loops, which end with this program. With FORKS, one more child forks
 * short-lived children all the time.
 */
#include "lib.h"
#include <sys/resource.h>

int main(int count, char **words)
{
	int64_t n = number(count, words, 1, 1), forks = number(count, words, 3, 0);

	setpriority(PRIO_PROCESS, 0, (int)number(count, words, 2, 0));
	for (int64_t i = 0; i < n; i++)
		if (!fork_bound())
			for (;;)
				;
	if (forks && !fork_bound())
		for (;;) {
			if (!fork_or_die()) {
				burn(200 * US);
				_exit(0);
			}
			wait(NULL);
		}
	pause_for_ever();
}
