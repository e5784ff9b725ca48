/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stay [BURN_MS] - uses that much CPU time, then sleeps until it is killed; from SIGUSR1 on it loops.
 * The plain interactive program of the tests: copies of it, under different names, get different specs.
 */
#include "lib.h"

static void loop(int signal)
{
	for (;;)
		;
}

int main(int count, char **words)
{
	signal(SIGUSR1, loop);
	burn(number(count, words, 1, 0) * MS);
	pause_for_ever();
}
