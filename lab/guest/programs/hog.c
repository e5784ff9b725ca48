// hog N [sessions]: N endless loops, all in the caller's session or each in a session (so an autogroup) of its own.
// They end with their parent. It stands for a fork bomb whose size is known.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **words)
{
	if (count < 2) {
		fprintf(stderr, "usage: hog N [sessions]\n");
		return 2;
	}
	for (int i = atoi(words[1]); i > 0; i--) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (count > 2)
				setsid();
			for (volatile unsigned long x = 0;; x++)
				;
		}
	}
	for (;;)
		pause();
}
