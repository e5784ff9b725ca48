/* SPDX-License-Identifier: GPL-2.0 */
/*
 * chain exec|fork LINK_US TOTAL_MS - tries to use more than its reservation by becoming a new
 * program or a new process again and again: uses LINK_US of CPU time, then executes itself, or
 * forks a child that continues in its place, and ends. Prints the CPU time of the whole chain as
 * ppm of one CPU.
 */
#include "lib.h"
#include <sys/mman.h>
#include <sys/resource.h>

static int64_t process_ran(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void print(int64_t used, int64_t length)
{
	printf("ppm=%lld\n", (long long)(used * 1000000 / length));
	fflush(stdout);
}

static int exec_chain(char **words, int64_t link, int64_t total, int64_t end)
{
	char until[32];

	if (end && now_ns() >= end) { /* exec does not reset process_ran() */
		print(process_ran(), total + (now_ns() - end));
		return 0;
	}
	snprintf(until, sizeof(until), "%lld", (long long)(end ? end : now_ns() + total));
	burn_ns(link);
	execl("/proc/self/exe", words[0], "exec", words[2], words[3], until, (char *)NULL);
	perror("exec");
	return 1;
}

static int fork_chain(int64_t link, int64_t total)
{
	int64_t *used = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t start = now_ns(), last = ran_ns();
	int done[2];
	char end;

	if (used == MAP_FAILED || pipe(done))
		return 1;
	signal(SIGCHLD, SIG_IGN);
	if (fork_or_die()) {
		close(done[1]);
		if (read(done[0], &end, 1) < 0)
			return 1;
		print(*used, now_ns() - start);
		return 0;
	}
	for (last = ran_ns(); now_ns() - start < total; last = ran_ns()) {
		burn_ns(link);
		*used += ran_ns() - last;
		if (fork_or_die())
			_exit(0);
	}
	return 0; /* closes the last end of the pipe */
}

int main(int count, char **words)
{
	int64_t link = argument(count, words, 2, 1000) * NS_PER_US,
		total = argument(count, words, 3, 1000) * NS_PER_MS;

	if (count > 1 && !strcmp(words[1], "exec"))
		return exec_chain(words, link, total, argument(count, words, 4, 0));
	return fork_chain(link, total);
}
