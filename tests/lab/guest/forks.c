/* SPDX-License-Identifier: GPL-2.0 */
/*
 * forks N - forks N children, one after the other, that live until the end. Prints how many forks
 * succeeded, and how many failed for lack of memory.
 */
#include "lib.h"

int main(int count, char **words)
{
	int64_t made = 0, no_memory = 0;
	int end[2];

	if (count != 2 || pipe(end))
		return 1;
	for (int64_t i = number("N", words[1], 1, 10000); i > 0; i--) {
		pid_t pid = fork();

		if (!pid) {
			char byte;

			close(end[1]);
			_exit(read(end[0], &byte, 1) != 0); /* until the parent closes its end */
		}
		if (pid > 0)
			made++;
		else if (errno == ENOMEM)
			no_memory++;
		else
			return 1;
	}
	printf("made=%lld no_memory=%lld\n", (long long)made, (long long)no_memory);
	close(end[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
